#include "dataset/images/image_view.hpp"

#include <algorithm>
#include <cmath>

namespace tasuki {
namespace {

// Pixels [at, at + length) of an axis, scaled to `side` results.
ViewedAxis part_of_axis(std::int64_t at, std::int64_t length, std::int64_t side) {
  return {static_cast<double>(at), static_cast<double>(length) / static_cast<double>(side), side,
          at, at + length};
}

// A uniform number with 32 bits.
double uniform(RandomStream& random, double from, double to) {
  return from + (to - from) * (static_cast<double>(random.next()) * 0x1p-32);
}

std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));
}

}  // namespace

ImageView random_crop(std::int64_t height, std::int64_t width, std::int64_t side,
                      const CropRange& range, bool may_mirror, RandomStream random) {
  // Drawn first, so that it does not depend on how many crops were drawn.
  const bool is_mirrored = random.below(2) == 1 && may_mirror;
  const auto view = [&](std::int64_t top, std::int64_t left, std::int64_t h, std::int64_t w) {
    return ImageView{part_of_axis(top, h, side), part_of_axis(left, w, side), is_mirrored};
  };
  const double area = static_cast<double>(height) * static_cast<double>(width);
  const double least = std::log(range.least_ratio), most = std::log(range.most_ratio);
  for (int draw = 0; draw < 10; ++draw) {
    const double part = area * uniform(random, range.least_area, range.most_area);
    const double ratio = std::exp(uniform(random, least, most));
    const std::int64_t w = rounded(std::sqrt(part * ratio)), h = rounded(std::sqrt(part / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const auto top = random.below(static_cast<std::uint64_t>(height - h + 1));
    const auto left = random.below(static_cast<std::uint64_t>(width - w + 1));
    return view(static_cast<std::int64_t>(top), static_cast<std::int64_t>(left), h, w);
  }
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  std::int64_t h = height, w = width;
  if (ratio < range.least_ratio)
    h = std::min(height, rounded(static_cast<double>(width) / range.least_ratio));
  else if (ratio > range.most_ratio)
    w = std::min(width, rounded(static_cast<double>(height) * range.most_ratio));
  return view((height - h) / 2, (width - w) / 2, h, w);
}

ImageView middle_crop(std::int64_t height, std::int64_t width, std::int64_t shorter,
                      std::int64_t side) {
  const std::int64_t shorter_now = std::min(height, width);
  const auto axis = [&](std::int64_t length) {
    // Rounded down, as in torchvision.
    const std::int64_t scaled = length * shorter / shorter_now;
    const double step = static_cast<double>(length) / static_cast<double>(scaled);
    const std::int64_t first = rounded(static_cast<double>(scaled - side) / 2);
    return ViewedAxis{static_cast<double>(first) * step, step, side, 0, length};
  };
  return {axis(height), axis(width), false};
}

}  // namespace tasuki
