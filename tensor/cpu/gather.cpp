// Batches of a data set in memory.
#include <cstring>

#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/gather_check.hpp"
#include "tensor/image_transform.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {

Tensor CpuBackend::gather(const Tensor& source, const Tensor& indices, DType dtype) {
  check_gather(source, indices, dtype);
  Tensor batch = Tensor::empty(source.shape().with_items(indices.count()), source.dtype());
  const auto bytes =
      static_cast<std::size_t>(source.shape().count_per_item()) * size_of(source.dtype());
  const auto* const from = static_cast<const std::byte*>(source.raw());
  auto* to = static_cast<std::byte*>(batch.raw());
  for (const std::int64_t index : indices.span<std::int64_t>()) {
    TASUKI_CHECK(0 <= index && index < source.shape()[0], "gather: item {} of {}", index,
                 source.shape().text());
    if (bytes > 0) std::memcpy(to, from + static_cast<std::size_t>(index) * bytes, bytes);
    to += bytes;
  }
  if (dtype == source.dtype()) return batch;
  if (source.dtype() == DType::float32) return batch.to(dtype);
  Tensor decoded = Tensor::empty(batch.shape());
  const auto pixels = batch.span<std::uint8_t>();
  float* value = decoded.data<float>();
  for (const std::uint8_t pixel : pixels) *value++ = static_cast<float>(pixel) / 255.0F;
  return decoded.to(dtype);
}

Tensor CpuBackend::transform_images(const Tensor& source, const Tensor& indices, const Tensor& ids,
                                    const Tensor& epoch, const SeededImageTransform& transform,
                                    DType dtype) {
  check_images(source, indices, ids, epoch, dtype);
  const Shape& all = source.shape();
  const Shape image{all[1], all[2], all[3]};
  Tensor batch = Tensor::empty(all.with_items(indices.count()));
  const std::int64_t* const numbers = indices.data<std::int64_t>();
  const std::int64_t* const keys = ids.data<std::int64_t>();
  const std::int64_t now = *epoch.data<std::int64_t>();
  parallel_for(indices.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      TASUKI_CHECK(0 <= numbers[i] && numbers[i] < all[0], "transform_images: image {} of {}",
                   numbers[i], all.text());
      transform_image(transform.settings, draw_image(transform, image_streams(), now, keys[i]),
                      image, source.data<std::uint8_t>() + numbers[i] * image.count(),
                      batch.data<float>() + i * image.count());
    }
  });
  return batch.to(dtype);
}

}  // namespace tasuki
