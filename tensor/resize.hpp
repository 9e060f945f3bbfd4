// Resized images: settings, and where each pixel comes from. For hosts and kernels.
#pragma once

#include <cstdint>

namespace tasuki {

enum class Interpolation : std::uint8_t { nearest, bilinear };

struct ResizeOptions {
  Interpolation interpolation = Interpolation::bilinear;
  // Bilinear: whether the centres of corner pixels stay in the corners. Otherwise pixels are areas,
  // and the corners of these stay.
  bool align_corners = false;
};

// Where the pixels of a resized axis come from.
struct ResizeAxis {
  std::int64_t in = 0, out = 0;
  ResizeOptions options;

  struct Source {
    std::int64_t first = 0, second = 0;
    float part = 0;  // of the second one
  };
  // Index has room for in * out.
  template <class Index>
  constexpr Source source(Index i) const {
    if (options.interpolation == Interpolation::nearest) {
      const std::int64_t at = i * static_cast<Index>(in) / static_cast<Index>(out);
      return {at, at, 0};
    }
    const auto size = static_cast<float>(in), position = static_cast<float>(i);
    float at = 0;
    if (!options.align_corners)
      at = (position + 0.5f) * (size / static_cast<float>(out)) - 0.5f;
    else if (out > 1)
      at = position * ((size - 1) / static_cast<float>(out - 1));
    if (at < 0) at = 0;
    auto first = static_cast<std::int64_t>(at);
    if (first > in - 1) first = in - 1;
    const std::int64_t second = first + 1 < in ? first + 1 : first;
    return {first, second, at - static_cast<float>(first)};
  }
};

}  // namespace tasuki
