// Options of operations as plain values, shared by backends and their kernels; those of updates are
// in update_operations.hpp.
#pragma once

#include <cstdint>

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

}  // namespace tasuki
