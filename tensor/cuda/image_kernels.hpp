// Batches of transformed images from a data set that lives on the device.
#pragma once

#include <cstdint>

#include "tasuki/tensor/cuda/launch.hpp"
#include "tasuki/tensor/dtype.hpp"
#include "tasuki/tensor/image_transform.hpp"

namespace tasuki::kernels {

// Images of C x H x W bytes, fewer than 2^31 each.
struct ImageSource {
  const std::uint8_t* pixels;
  std::int64_t images;
  int channels, height, width;
};

// What a batch is made of; all in the device's memory.
struct ImageChoice {
  const std::int64_t* indices;  // one an item, as are the ids
  const std::int64_t* ids;
  const std::int64_t* epoch;
  std::int64_t items;
};

// Channels that transform_images has shared memory for.
inline constexpr int most_image_channels = 256;

// destination[i] = image indices[i] with what draw_image() draws for (epoch, ids[i]) done to it.
// Numbers that are not in 0 .. images - 1 give zeros.
void transform_images(const Launch& launch, DType type, void* destination,
                      const ImageSource& source, const ImageChoice& choice,
                      const SeededImageTransform& transform, const ImageStreams& streams);

}  // namespace tasuki::kernels
