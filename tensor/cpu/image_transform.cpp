// Batches of transformed images of a data set in memory.
#include "tensor/image_transform.hpp"

#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/gather_check.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {

Tensor CpuBackend::transform_images(const Tensor& source, const Tensor& indices, const Tensor& ids,
                                    const Tensor& epoch, const SeededImageTransform& transform,
                                    DType dtype) {
  check_images(source, indices, ids, epoch, dtype);
  const Shape& all = source.shape();
  const Shape image{all[1], all[2], all[3]};
  const std::int64_t size = image.count();
  Tensor batch = Tensor::empty(all.with_items(indices.count()), dtype);
  const FloatElements values(batch);
  const std::int64_t* const numbers = indices.data<std::int64_t>();
  const std::int64_t* const keys = ids.data<std::int64_t>();
  const std::int64_t now = *epoch.data<std::int64_t>();
  parallel_for(indices.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    FloatBuffers<1> buffer(values, size);
    for (std::int64_t i = begin; i < end; ++i) {
      TASUKI_CHECK(0 <= numbers[i] && numbers[i] < all[0], "transform_images: image {} of {}",
                   numbers[i], all.text());
      float* const transformed = values.place(i * size, buffer[0]);
      transform_image(transform.settings, draw_image(transform, image_streams(), now, keys[i]),
                      image, source.data<std::uint8_t>() + numbers[i] * size, transformed);
      values.write(i * size, size, transformed);
    }
  });
  return batch;
}

}  // namespace tasuki
