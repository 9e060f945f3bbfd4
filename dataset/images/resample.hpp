// Resampling: scales a part of an image bilinearly, as Pillow does. When it shrinks, a pixel is the
// mean over the pixels that it replaces, weighted by distance (a triangle).
#pragma once

#include <cstdint>
#include <vector>

#include "core/range.hpp"
#include "dataset/images/image.hpp"
#include "dataset/images/image_view.hpp"

namespace tasuki {

// The image's pixels that a view needs along an axis.
Range pixels_for(const ViewedAxis& axis);

// A part of an image: rows and columns from (top, left) on.
struct ImagePart {
  Image image;
  std::int64_t top = 0, left = 0;
};

// The result's pixels row by row: red in the lowest 8 bits, then green and blue. `part` must have
// the pixels that the view needs. Integer arithmetic: the same pixels on every processor, within 1
// of Pillow's in almost all of them.
void resample(const ImagePart& part, const ImageView& view, std::vector<std::uint32_t>& pixels);

}  // namespace tasuki
