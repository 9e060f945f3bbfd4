// Augmentation and "whitening" of images: what makes other pictures of the same thing out of each
// picture in every epoch, and puts all pictures on one scale.
#pragma once

#include <cstdint>

#include "tasuki/dataset/transform.hpp"
#include "tasuki/tensor/image_transform.hpp"

namespace tasuki {

// What training uses by default, and what goes with it in evaluation.
constexpr ImageTransform augmentation{
    .padding = 4, .flip = true, .brightness = 0.2, .contrast = 0.2, .standardize = true};
constexpr ImageTransform standardization{.standardize = true};

// The transform for examples of this field: C x H x W, stored as uint8 and decoded to float32; an
// error of kind config otherwise. What is drawn is a function of (seed, epoch, id) alone, each of
// the four by itself: leaving one out does not change the others.
Transform create_transform(const ImageTransform& settings, const Field& field,
                           std::uint64_t seed = 0);

}  // namespace tasuki
