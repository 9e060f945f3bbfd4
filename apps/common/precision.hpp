// What a training program computes in.
#pragma once

#include <string>
#include <vector>

#include "tasuki/tensor/device.hpp"
#include "tasuki/tensor/dtype.hpp"

namespace tasuki::apps {

struct Precision {
  DType activations = DType::float32;  // of batches, and so of all activations
  bool scales_losses = false;          // float16 loses small gradients otherwise
};

// fp32, tf32, bf16, fp16: the values of --dtype. Weights, their gradients and optimizer states are
// float32 with all of them.
const std::vector<std::string>& precision_names();

// For --dtype on a device; also sets how the calling thread (bf16 on a CPU, where only products are
// computed in it) or the process (tf32) computes products. What the device cannot do is an error.
Precision choose_precision(const std::string& dtype, Device device);

}  // namespace tasuki::apps
