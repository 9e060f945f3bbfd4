// Passes over the images that a convolution writes, in plain or channels-last order, by the kernels
// of filter_kernels.hpp.
#pragma once

#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/filter_kernels.hpp"

namespace tasuki {

inline kernels::ImageCount count_of_images(const Shape& shape) {
  return {shape[0], shape[1], shape[2] * shape[3]};
}

// y + b, then max(., 0) with `relu`, in place. b, float32 or of the type `rounded`, is rounded to
// that first, as an optimizer's copy is.
inline void add_image_bias(const Tensor& y, const Tensor& b, DType rounded, bool relu) {
  kernels::add_bias(launch_on(y), y.dtype(), y.raw(), {b.raw(), b.dtype(), rounded},
                    count_of_images(y.shape()), is_channels_last(y), relu);
  check_launch("add_bias");
}

// How many values of y differ from their channel's in `expected`, C float32 values. Waits for the
// device.
inline std::int64_t count_differing(const Tensor& y, const Tensor& expected,
                                    const kernels::Tolerance& tolerance = {}) {
  const Tensor count = Tensor::zeros({1}, DType::int64, y.device());
  kernels::count_differing(launch_on(y), y.dtype(), y.raw(), expected.data<float>(),
                           count_of_images(y.shape()), is_channels_last(y), tolerance,
                           count.data<std::int64_t>());
  check_launch("count_differing");
  return count.to(Device::cpu()).data<std::int64_t>()[0];
}

}  // namespace tasuki
