// What every backend's transform_images() asks of its arguments.
#pragma once

#include "tasuki/tensor/image_transform.hpp"
#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

inline void check_images(const Tensor& source, const Tensor& indices, const Tensor& ids,
                         const Tensor& epoch, DType dtype) {
  TASUKI_CHECK(source.shape().rank() == 4 && source.dtype() == DType::uint8 && source.is_plain(),
               "transform_images: N x C x H x W images of uint8 were expected, not {} of {}",
               source.shape().text(), name_of(source.dtype()));
  TASUKI_CHECK(source.shape().count_per_item() < (std::int64_t{1} << 31),
               "transform_images: images of {} have more than 2^31 values", source.shape().text());
  TASUKI_CHECK(indices.shape().rank() == 1 && ids.shape() == indices.shape() && epoch.count() == 1,
               "transform_images: numbers of {}, ids of {} and an epoch of {}",
               indices.shape().text(), ids.shape().text(), epoch.shape().text());
  for (const Tensor* numbers : {&indices, &ids, &epoch})
    TASUKI_CHECK(numbers->dtype() == DType::int64 && numbers->device() == source.device(),
                 "transform_images: int64 numbers on {} were expected, not {} on {}",
                 source.device().text(), name_of(numbers->dtype()), numbers->device().text());
  TASUKI_CHECK(dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16,
               "transform_images: images cannot be had as {}", name_of(dtype));
}

}  // namespace tasuki
