// Transforms one image on a CPU; also called by the threads that read batches ahead.
#pragma once

#include <cstdint>

#include "tensor/image_draw.hpp"
#include "tensor/shape.hpp"

namespace tasuki {

// From pixels of an image of `shape` (C x H x W) to as many floats. The same bits on every
// processor.
void transform_image(const ImageTransform& settings, const ImageDraw& draw, const Shape& shape,
                     const std::uint8_t* pixels, float* destination);

}  // namespace tasuki
