// The part of an image that is shown, and its scale: crops for training and evaluation.
#pragma once

#include <cstdint>
#include <functional>

#include "core/philox.hpp"

namespace tasuki {

// The positions of results along one axis of an image, in the image's pixels: result i covers
// [begin + i * step, begin + (i + 1) * step). Pixels outside of [low, high) are not used.
struct ViewedAxis {
  double begin = 0, step = 1;
  std::int64_t count = 0;
  std::int64_t low = 0, high = 0;
};

struct ImageView {
  ViewedAxis rows, columns;
  bool is_mirrored = false;  // left and right
};

// Chooses the view of an image of this size.
using ChooseView = std::function<ImageView(std::int64_t height, std::int64_t width)>;

// The crop of "Inception-style" training (Szegedy et al., arXiv 1409.4842, section 6): an area of
// 8 % to 100 % of the image's with a ratio of width to height of 3/4 to 4/3, scaled to side x side
// pixels. If ten draws do not fit: the largest central part with such a ratio.
struct CropRange {
  double least_area = 0.08, most_area = 1, least_ratio = 3.0 / 4, most_ratio = 4.0 / 3;
};
// `random` chooses the crop and, if `may_mirror`, whether to mirror it.
ImageView random_crop(std::int64_t height, std::int64_t width, std::int64_t side,
                      const CropRange& range, bool may_mirror, RandomStream random);

// The middle side x side pixels of the image after scaling its shorter side to `shorter`, which is
// at least `side`.
ImageView middle_crop(std::int64_t height, std::int64_t width, std::int64_t shorter,
                      std::int64_t side);

}  // namespace tasuki
