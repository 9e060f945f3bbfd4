// The options of operations, as plain values: what backends and their kernels both know.
#pragma once

#include <cstdint>

#include "tasuki/tensor/device.hpp"
#include "tasuki/tensor/dtype.hpp"

namespace tasuki {

struct Conv2dOptions {
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t dilation_h = 1, dilation_w = 1;  // 1: dense
  std::int64_t groups = 1;
};

enum class PoolKind { max, average };
struct Pool2dOptions {
  PoolKind kind = PoolKind::max;
  std::int64_t kernel_h = 2, kernel_w = 2;
  std::int64_t stride_h = 2, stride_w = 2;
  std::int64_t pad_h = 0, pad_w = 0;
  bool cover_all = true;  // Chainer's default for max: windows over the edge count
};

enum class Unary { relu, leaky_relu, sigmoid, tanh };

// One fused optimizer step over an arena: for every element i, in one pass over memory.
// g = gradient_scale * gradient[i] + weight_decay * parameter[i], then the rule.
enum class UpdateRule { sgd, momentum_sgd, nesterov, adam, adamw, rmsprop, adagrad, adadelta };
struct UpdateStep {
  Device device;  // where the arrays are
  UpdateRule rule = UpdateRule::sgd;
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float* state[2] = {nullptr, nullptr};  // v | m, v | ms | h | msg, msdx
  std::int64_t count = 0;
  float gradient_scale = 1;
  float weight_decay = 0;
  // Learning rate as it multiplies this step (Adam: eta and both bias corrections folded in) and
  // the rule's own constants; decay factors of averages as 1 - factor, which float would round
  // badly. momentum: momentum | adam: 1 - beta1, 1 - beta2, eps, eta * weight_decay_rate | rmsprop:
  // 1 - alpha, eps | adagrad: eps | adadelta: 1 - rho, eps.
  float rate = 0;
  float constant[4] = {0, 0, 0, 0};
  // For work that is recorded and repeated, in the device's memory: the rate and the constants,
  // read there when the update runs; and a number that, when it is not 0, makes it change nothing.
  const float* device_factors = nullptr;
  const float* skip = nullptr;
  // Where each new parameter is written once more, rounded to float16 or bfloat16; may be null.
  void* rounded = nullptr;
  DType rounded_type = DType::bfloat16;
};

}  // namespace tasuki
