// Batches of a data set in memory.
#include <algorithm>
#include <cstring>

#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/gather_check.hpp"

namespace tasuki {
namespace {

// Pixels as parts of 255.
void decode(const std::uint8_t* pixels, const FloatElements& values, std::int64_t at,
            std::int64_t count) {
  float block[FloatElements::block];
  for (std::int64_t begin = 0; begin < count; begin += FloatElements::block) {
    const std::int64_t length = std::min(FloatElements::block, count - begin);
    float* const decoded = values.place(at + begin, block);
    for (std::int64_t i = 0; i < length; ++i)
      decoded[i] = static_cast<float>(pixels[begin + i]) / 255.0F;
    values.write(at + begin, length, decoded);
  }
}

}  // namespace

Tensor CpuBackend::gather(const Tensor& source, const Tensor& indices, DType dtype) {
  check_gather(source, indices, dtype);
  Tensor batch = Tensor::empty(source.shape().with_items(indices.count()), dtype);
  const std::int64_t count = source.shape().count_per_item();
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(source.dtype());
  const auto* const items = static_cast<const std::byte*>(source.raw());
  std::int64_t at = 0;  // in the batch
  for (const std::int64_t index : indices.span<std::int64_t>()) {
    TASUKI_CHECK(0 <= index && index < source.shape()[0], "gather: item {} of {}", index,
                 source.shape().text());
    if (bytes == 0) continue;
    const std::byte* const item = items + static_cast<std::size_t>(index) * bytes;
    if (dtype == source.dtype())
      std::memcpy(
          static_cast<std::byte*>(batch.raw()) + static_cast<std::size_t>(at) * size_of(dtype),
          item, bytes);
    else if (source.dtype() == DType::float32)
      FloatElements(batch).store(at, count, reinterpret_cast<const float*>(item));
    else
      decode(reinterpret_cast<const std::uint8_t*>(item), FloatElements(batch), at, count);
    at += count;
  }
  return batch;
}

}  // namespace tasuki
