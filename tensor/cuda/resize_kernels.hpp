// Kernels of resized images and of noise.
#pragma once

#include <cstdint>

#include "tensor/cuda/dropout_kernels.hpp"
#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"
#include "tensor/resize.hpp"

namespace tasuki::kernels {

// `planes` images of one channel each, in plain order.
struct ResizePlanes {
  DType type = DType::float32;
  std::int64_t planes = 0;
  ResizeAxis rows, columns;
};
void resize(const Launch& launch, const ResizePlanes& planes, const void* x, void* y);
// dx is overwritten; each of its elements is summed by one thread.
void resize_backward(const Launch& launch, const ResizePlanes& planes, const void* dy, void* dx);

// y = x + scale * noise (ImageOperations::add_noise).
void add_noise(const Launch& launch, DType type, const void* x, void* y, std::int64_t items,
               const ExampleOrder& order, bool is_normal, float scale, const std::int64_t* seed,
               const std::int64_t* ids);

}  // namespace tasuki::kernels
