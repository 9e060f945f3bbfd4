// Values that are added to the trainer's observation for reports; each epoch by default.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "training/extension.hpp"

namespace tasuki {

// "lr": the learning rate of the last update (Optimizer::learning_rate), even if a schedule has
// already set the next one; nothing if there is no rate.
std::unique_ptr<Extension> observe_lr(std::string key = "lr");

// Any value that is the same on every rank.
std::unique_ptr<Extension> observe_value(std::string key, std::function<double(Trainer&)> value);

// How the slowest and the fastest device spend the time of a step: mean seconds of a step since the
// last report. "time/input/max" and "time/input/min" for the devices (of all ranks, and all workers
// of a rank) that waited most and least for their batches, and the same for "time/compute", its
// parts "time/forward", "time/backward" and "time/update", and "time/communication" (waiting for
// the exchange). Unequal devices, shares or loaders appear as unequal times; a slow device waits
// least in communication, because the others wait for it there. Ranks communicate once an epoch.
// Updaters that do not measure (Updater::times) add nothing. On a GPU only this extension makes
// them measure, which takes a few small kernels in a step.
std::unique_ptr<Extension> report_step_times();

}  // namespace tasuki
