// create_transform(): augmentation and standardisation, which vary each image in every epoch, and
// bring all images to one scale.
#pragma once

#include <cstdint>

#include "dataset/transform.hpp"
#include "tensor/image_transform.hpp"

namespace tasuki {

// The defaults for training, and the matching ones for evaluation.
constexpr ImageTransform augmentation{
    .padding = 4, .flip = true, .brightness = 0.2, .contrast = 0.2, .standardize = true};
constexpr ImageTransform standardization{.standardize = true};

// The transform for examples of this field: C x H x W, stored as uint8 and decoded to float32; an
// error of kind config otherwise. The four random choices are functions of (seed, epoch, id), each
// independent of the others: leaving one out does not change them.
Transform create_transform(const ImageTransform& settings, const Field& field,
                           std::uint64_t seed = 0);

}  // namespace tasuki
