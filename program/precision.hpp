// What a training program computes in.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tasuki/tensor/device.hpp"
#include "tasuki/tensor/dtype.hpp"

namespace tasuki::program {

struct Precision {
  DType activations = DType::float32;  // of batches on GPUs, and so of all activations there
  bool scales_losses = false;          // float16 loses small gradients otherwise

  DType on(Device device) const { return device.is_cpu() ? DType::float32 : activations; }
};

// fp32, tf32, bf16, fp16: the values of --dtype. Weights, their gradients and optimizer states are
// float32 with all of them.
const std::vector<std::string>& precision_names();

// For --dtype on all the devices that a process computes on; also sets how the calling thread (bf16
// on CPUs, where only products are computed in it) or the process (tf32) computes products. What
// one of the devices cannot do is an error.
Precision choose_precision(const std::string& dtype, std::span<const Device> devices);

}  // namespace tasuki::program
