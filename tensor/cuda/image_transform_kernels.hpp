// Batches of transformed images from a data set in the device's memory.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"
#include "tensor/image_transform.hpp"

namespace tasuki::kernels {

// Images of C x H x W bytes, fewer than 2^31 each.
struct ImageSource {
  const std::uint8_t* pixels;
  std::int64_t images;
  int channels, height, width;
};

// The input of a batch, all in the device's memory.
struct ImageChoice {
  const std::int64_t* indices;  // one per item, like the ids
  const std::int64_t* ids;
  const std::int64_t* epoch;
  std::int64_t items;
};

// Most channels that transform_images supports, limited by shared memory.
inline constexpr int most_image_channels = 256;

// destination[i] = image indices[i] transformed by what draw_image() draws for (epoch, ids[i]).
// Numbers that are not in 0 .. images - 1 give zeros.
void transform_images(const Launch& launch, DType type, void* destination,
                      const ImageSource& source, const ImageChoice& choice,
                      const SeededImageTransform& transform, const ImageStreams& streams);

}  // namespace tasuki::kernels
