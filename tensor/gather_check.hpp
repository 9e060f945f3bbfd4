// Checks of the arguments of gather() and transform_images(), for every backend.
#pragma once

#include "tensor/image_transform.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

inline void check_gather(const Tensor& source, const Tensor& indices, DType dtype) {
  TASUKI_CHECK(source.shape().rank() >= 1 && source.is_plain(),
               "gather: expected a plain tensor of items, found {}", source.shape().text());
  TASUKI_CHECK(indices.shape().rank() == 1 && indices.dtype() == DType::int64 &&
                   indices.is_plain() &&
                   (indices.device().is_cpu() || indices.device() == source.device()),
               "gather: expected a vector of int64 numbers, found {} of {}", indices.shape().text(),
               name_of(indices.dtype()));
  const bool to_float = is_activation_type(dtype);
  const bool converts =
      to_float && (source.dtype() == DType::uint8 || source.dtype() == DType::float32);
  TASUKI_CHECK(dtype == source.dtype() || converts, "gather: items of {} cannot be converted to {}",
               name_of(source.dtype()), name_of(dtype));
}

inline void check_images(const Tensor& source, const Tensor& indices, const Tensor& ids,
                         const Tensor& epoch, DType dtype) {
  TASUKI_CHECK(source.shape().rank() == 4 && source.dtype() == DType::uint8 && source.is_plain(),
               "transform_images: expected N x C x H x W images of uint8, found {} of {}",
               source.shape().text(), name_of(source.dtype()));
  TASUKI_CHECK(source.shape().count_per_item() < (std::int64_t{1} << 31),
               "transform_images: images of {} have more than 2^31 values", source.shape().text());
  TASUKI_CHECK(indices.shape().rank() == 1 && ids.shape() == indices.shape() && epoch.count() == 1,
               "transform_images: numbers of {}, ids of {} and an epoch of {}",
               indices.shape().text(), ids.shape().text(), epoch.shape().text());
  for (const Tensor* numbers : {&indices, &ids, &epoch})
    TASUKI_CHECK(numbers->dtype() == DType::int64 && numbers->device() == source.device(),
                 "transform_images: expected int64 numbers on {}, found {} on {}",
                 source.device().text(), name_of(numbers->dtype()), numbers->device().text());
  TASUKI_CHECK(is_activation_type(dtype), "transform_images: images cannot be converted to {}",
               name_of(dtype));
}

}  // namespace tasuki
