// The precision of a training program, and how GPUs compute: --dtype, --graph, --autotune and
// --deterministic.
#pragma once

#include <span>
#include <vector>

#include "program/flags/training_settings.hpp"
#include "tensor/device.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::program {

struct Precision {
  DType activations = DType::float32;  // of batches on GPUs, and so of all activations there
  bool scales_losses = false;          // float16 loses small gradients otherwise

  DType on(Device device) const { return device.is_cpu() ? DType::float32 : activations; }
};

// The precision for all devices that a process computes on. Also sets how the calling thread (bf16
// on CPUs, for matrix products only) or the process (tf32) computes products. A type that one of
// the devices does not have is an error.
Precision choose_precision(ComputeType dtype, std::span<const Device> devices);
// Flags that do not fit each other, or that devices of these kinds do not support, are usage
// errors.
void check_computing(const TrainingSettings& settings, std::span<const Device> devices);
// The precision from the flags, which are checked; also applies the other flags to this process.
Precision choose_computing(const TrainingSettings& settings, std::span<const Device> devices);

}  // namespace tasuki::program
