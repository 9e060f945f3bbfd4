#include "core/philox.hpp"
#include "tensor/cuda/dropout_kernels.hpp"
#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

__device__ std::array<std::uint32_t, 4> words_of(std::uint64_t seed, std::int64_t id,
                                                 std::int64_t block) {
  const auto example = static_cast<std::uint64_t>(id);
  return philox(seed, {static_cast<std::uint32_t>(block), 0u, static_cast<std::uint32_t>(example),
                       static_cast<std::uint32_t>(example >> 32)});
}

// A thread draws one block and uses its four words for neighbours in memory.
template <class T>
__global__ void dropout_kernel(const T* x, T* y, std::int64_t items, std::int64_t count,
                               float ratio, float factor, const std::int64_t* seed,
                               const std::int64_t* ids) {
  const std::int64_t blocks = (count + 3) / 4;
  const auto key = static_cast<std::uint64_t>(*seed);
  for (std::int64_t i = thread_index(); i < items * blocks; i += thread_count()) {
    const std::int64_t item = i / blocks, first = i % blocks * 4;
    const auto words = words_of(key, ids[item], first / 4);
    const T* const from = x + item * count;
    T* const to = y + item * count;
    for (int j = 0; j < 4 && first + j < count; ++j)
      to[first + j] =
          convert<T>(convert<float>(from[first + j]) *
                     (unit_float(words[static_cast<std::size_t>(j)]) >= ratio ? factor : 0.0f));
  }
}

// Neighbours in memory belong to different blocks here.
template <class T>
__global__ void dropout_channels_last_kernel(const T* x, T* y, std::int64_t items,
                                             std::int64_t channels, std::int64_t pixels,
                                             float ratio, float factor, const std::int64_t* seed,
                                             const std::int64_t* ids) {
  const std::int64_t count = channels * pixels;
  const auto key = static_cast<std::uint64_t>(*seed);
  for (std::int64_t i = thread_index(); i < items * count; i += thread_count()) {
    const std::int64_t item = i / count, within = i % count;
    const std::int64_t j = within % channels * pixels + within / channels;
    const auto words = words_of(key, ids[item], j / 4);
    const float kept = unit_float(words[static_cast<std::size_t>(j % 4)]) >= ratio ? factor : 0.0f;
    y[i] = convert<T>(convert<float>(x[i]) * kept);
  }
}

}  // namespace

void dropout(const Launch& launch, DType type, const void* x, void* y, std::int64_t items,
             const ExampleOrder& order, float ratio, const std::int64_t* seed,
             const std::int64_t* ids) {
  const std::int64_t count = order.channels * order.pixels;
  if (items * count == 0) return;
  const float factor = 1 / (1 - ratio);
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* const from = static_cast<const T*>(x);
    auto* const to = static_cast<T*>(y);
    if (order.is_channels_last)
      dropout_channels_last_kernel<<<grid_for(launch, items * count), block_threads, 0,
                                     launch.stream>>>(from, to, items, order.channels, order.pixels,
                                                      ratio, factor, seed, ids);
    else
      dropout_kernel<<<grid_for(launch, items * ((count + 3) / 4)), block_threads, 0,
                       launch.stream>>>(from, to, items, count, ratio, factor, seed, ids);
  });
}

}  // namespace tasuki::kernels
