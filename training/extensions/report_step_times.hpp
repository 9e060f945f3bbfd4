// report_step_times: logs how the slowest and the fastest device spend the time of a step.
#pragma once

#include <memory>

#include "training/extension.hpp"

namespace tasuki {

// Each epoch, adds mean seconds of a step since the last report: "time/input/max" and
// "time/input/min" for the devices (of all ranks, and all workers of a rank) that waited most and
// least for their batches, and the same for "time/compute", its parts "time/forward",
// "time/backward" and "time/update", and "time/communication" (waiting for the exchange). Unequal
// devices, shares or loaders appear as unequal times; a slow device waits least in communication,
// because the others wait for it there. Ranks communicate once an epoch. Updaters that do not
// measure (Updater::times) add nothing.
std::unique_ptr<Extension> report_step_times();

}  // namespace tasuki
