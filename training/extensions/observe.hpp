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

}  // namespace tasuki
