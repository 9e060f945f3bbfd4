// Kernels around cuDNN's convolutions: weights and images in another order, biases, and a check.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// A filter of O outputs, I inputs (of a group) and P = KH x KW places. Parameters are O x I x P;
// cuDNN's are O x P x PI with `channels_last`, where PI >= I and the inputs beyond I are zeros,
// else O x I x P. All are of float types, gradients of parameters float32.
struct FilterSize {
  std::int64_t outputs, inputs, places, padded_inputs;

  bool operator==(const FilterSize&) const = default;
};

// Most places of a filter in channels-last order, limited by shared memory.
inline constexpr std::int64_t most_filter_places = 64;

void convert_filter(const Launch& launch, DType to_type, void* to, DType from_type,
                    const void* from, const FilterSize& size, bool channels_last);
// Many filters into channels-last order, in one launch for each 32.
struct FilterCopy {
  void* to;
  const void* from;
  FilterSize size;
};
void convert_filters(const Launch& launch, DType to_type, DType from_type,
                     std::span<const FilterCopy> filters);
// Back: to = from, or to += from with `accumulate`.
void convert_filter_gradient(const Launch& launch, float* to, DType type, const void* from,
                             const FilterSize& size, bool channels_last, bool accumulate);

// N x C images of P pixels, plain or channels last, to N x P x PC with zeros in the channels from C
// on. PC is a multiple of 16 bytes' worth of `type`, and `to` is aligned to 16 bytes.
struct ImageSize {
  std::int64_t items, channels, pixels, padded_channels;
};
void pad_channels(const Launch& launch, DType type, void* to, const void* from,
                  const ImageSize& size, bool channels_last);

// N x C images of P pixels.
struct ImageCount {
  std::int64_t items, channels, pixels;
};

// One value a channel, float32 or of the type to which it is rounded before it is added.
struct ImageBias {
  const void* values;
  DType type, rounded;
};
// y[n, c, p] += bias[c], then max(., 0) with `relu`; y of `type`.
void add_bias(const Launch& launch, DType type, void* y, const ImageBias& bias,
              const ImageCount& images, bool channels_last, bool relu);

// How far a value may be from a finite one that is expected: absolute + relative |expected|.
struct Tolerance {
  float absolute = 0, relative = 0;
};
// count += how many y[n, c, p] are not expected[c]; NaN is NaN, and infinities are exact.
void count_differing(const Launch& launch, DType type, const void* y, const float* expected,
                     const ImageCount& images, bool channels_last, const Tolerance& tolerance,
                     std::int64_t* count);

}  // namespace tasuki::kernels
