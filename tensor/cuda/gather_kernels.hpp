// Batches of examples from a data set in the device's memory, images perhaps transformed.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"
#include "tensor/image_transform.hpp"

namespace tasuki::kernels {

// destination[i] = source[indices[i]] for items of `count` values each: of the same type, or from
// uint8 (as value / 255, rounded correctly) or float32 to an activation's type. Numbers that are
// not in 0 .. source_items - 1 give zeros.
void gather(const Launch& launch, DType to, void* destination, DType from, const void* source,
            std::int64_t source_items, const std::int64_t* indices, std::int64_t items,
            std::int64_t count);

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
