// Batches of a data set in memory.
#include <cstring>

#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/gather_check.hpp"

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

}  // namespace tasuki
