// Augmentation and "whitening" of images: what makes other pictures of the same thing out of each
// picture in every epoch, and puts all pictures on one scale.
#pragma once

#include <cstdint>

#include "tasuki/dataset/transform.hpp"

namespace tasuki {

// What is done to an image, in this order; what is left out is not done. Values are on the scale of
// the stored pixels, 0 (black) to 255.
struct ImageTransform {
  // Random crop of the image's own size after this many black pixels were put around it: a shift by
  // -padding .. padding pixels down and right.
  std::int64_t padding = 0;
  // Mirrors left and right, every other time.
  bool flip = false;
  // Adds a random part of full white, up to this much more or less: 0.2 is -51 .. 51.
  double brightness = 0;
  // Draws each channel's pixels away from the channel's mean or towards it, by a random factor in
  // 1 - contrast .. 1 + contrast. After brightness and contrast pixels are clipped to 0 .. 255, as
  // in a camera; unclipped, the standardisation below would undo most of both.
  double contrast = 0;
  // Per-image standardisation: (x - mean) / max(standard deviation, 1 / sqrt(n)) over all n values
  // of the image, as TensorFlow's per_image_standardization. Without it, results are x / 255.
  bool standardize = false;
};

// What training uses by default, and what goes with it in evaluation.
constexpr ImageTransform augmentation{
    .padding = 4, .flip = true, .brightness = 0.2, .contrast = 0.2, .standardize = true};
constexpr ImageTransform standardization{.standardize = true};

// The transform for examples of this kind: C x H x W, stored as uint8; an error of kind config
// otherwise. What is drawn is a function of (seed, epoch, id) alone, each of the four by itself:
// leaving one out does not change the others.
Transform create_transform(const ImageTransform& settings, const DatasetHeader& header,
                           std::uint64_t seed = 0);

}  // namespace tasuki
