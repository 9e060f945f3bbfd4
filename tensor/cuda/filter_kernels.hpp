// Kernels around cuDNN's convolutions: weights in another type and order, and biases.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// A filter of O outputs, I inputs (of a group) and P = KH x KW places. Parameters are O x I x P;
// cuDNN's are O x P x I with `channels_last`, else O x I x P. All are of float types, gradients of
// parameters float32.
struct FilterSize {
  std::int64_t outputs, inputs, places;
};

// Most places of a filter in channels-last order, limited by shared memory.
inline constexpr std::int64_t most_filter_places = 64;

void convert_filter(const Launch& launch, DType to_type, void* to, DType from_type,
                    const void* from, const FilterSize& size, bool channels_last);
// Back: to = from, or to += from with `accumulate`.
void convert_filter_gradient(const Launch& launch, float* to, DType type, const void* from,
                             const FilterSize& size, bool channels_last, bool accumulate);

// y[n, c, p] += bias[c], for `items` images of `channels` channels of `pixels` pixels.
void add_bias(const Launch& launch, DType type, void* y, const float* bias, std::int64_t items,
              std::int64_t channels, std::int64_t pixels, bool channels_last);

}  // namespace tasuki::kernels
