// Precision, and how GPUs compute: --dtype, --graph, --autotune and --deterministic.
#pragma once

#include <span>

#include "program/flags/training_settings.hpp"
#include "tensor/device.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::program {

struct Precision {
  DType activations = DType::float32;  // of batches, and so of all activations
  bool scales_losses = false;          // float16 loses small gradients otherwise
};

// The precision for all devices of a process; also sets whether GPUs use tf32. A type that a device
// lacks is an error.
Precision choose_precision(ComputeType dtype, std::span<const Device> devices);
// Throws a usage error for flags that contradict each other or that such devices do not support.
void check_compute_flags(const TrainingSettings& settings, std::span<const Device> devices);
// Checks the flags, applies them to this process, and returns the precision.
Precision apply_compute_flags(const TrainingSettings& settings, std::span<const Device> devices);

}  // namespace tasuki::program
