// Precision, and how GPUs compute: --dtype, --graph, --autotune and --deterministic.
#pragma once

#include <span>

#include "program/flags/training_settings.hpp"
#include "tensor/device.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::program {

struct Precision {
  DType activations = DType::float32;  // of batches on GPUs, and so of all activations there
  bool scales_losses = false;          // float16 loses small gradients otherwise

  DType on(Device device) const { return device.is_cpu() ? DType::float32 : activations; }
};

// The precision for all devices of a process. Also sets the type of matrix products: for the
// calling thread bf16 on CPUs, for the process tf32 on GPUs. A type that a device lacks is an
// error.
Precision choose_precision(ComputeType dtype, std::span<const Device> devices);
// Throws a usage error for flags that contradict each other or that such devices do not support.
void check_compute_flags(const TrainingSettings& settings, std::span<const Device> devices);
// Checks the flags, applies them to this process, and returns the precision.
Precision apply_compute_flags(const TrainingSettings& settings, std::span<const Device> devices);

}  // namespace tasuki::program
