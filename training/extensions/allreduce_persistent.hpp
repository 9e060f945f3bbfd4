// Running statistics of batch normalisation, averaged over ranks.
#pragma once

#include <memory>

#include "training/extension.hpp"

namespace tasuki {

// Replaces the model's floating-point buffers by their means over the ranks that have seen
// examples, each epoch by default, just before evaluators run, so that all ranks evaluate and save
// the same model.
std::unique_ptr<Extension> allreduce_persistent();

}  // namespace tasuki
