// Kernels of max and average pooling.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// N x C x H x W to N x C x OH x OW, both plain or both channels last. Windows may reach over every
// edge; positions outside do not count for the maximum and count as 0 for the average.
struct PoolingSize {
  std::int64_t items, channels, height, width, out_height, out_width;
  int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
  bool channels_last;
};

// `places` (as many as y has elements, may be nullptr) gets the position in its window, counted by
// rows, of the first largest element; a NaN is larger than all.
void max_pool(const Launch& launch, DType type, void* y, const void* x, std::uint16_t* places,
              const PoolingSize& size);
void max_pool_backward(const Launch& launch, DType type, void* dx, const void* dy,
                       const std::uint16_t* places, const PoolingSize& size);
// With `relu`, of max(x, 0).
void average_pool(const Launch& launch, DType type, void* y, const void* x, const PoolingSize& size,
                  bool relu);
// `relu_of`: the x of max(x, 0); nullptr: there was no ReLU.
void average_pool_backward(const Launch& launch, DType type, void* dx, const void* dy,
                           const void* relu_of, const PoolingSize& size);

}  // namespace tasuki::kernels
