// Values that are changed by random numbers of their own: a thread draws one block of Philox, or
// two for 16 bytes of 16-bit values, and uses the four words of a block for the four values that
// they belong to (dropout_kernels.hpp).
#pragma once

#include <array>

#include "core/philox.hpp"
#include "tensor/cuda/dropout_kernels.hpp"
#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {

using RandomWords = std::array<std::uint32_t, 4>;

__device__ inline RandomWords words_of(std::uint64_t key, std::int64_t id, std::int64_t block) {
  const auto example = static_cast<std::uint64_t>(id);
  return philox(key, {static_cast<std::uint32_t>(block), 0u, static_cast<std::uint32_t>(example),
                      static_cast<std::uint32_t>(example >> 32)});
}

// Of a thread that reads and writes V values at once: whole blocks.
template <int V>
inline constexpr int values_of_thread = V < 4 ? 4 : V;

// In plain order. V: a multiple of 4 that divides every example's values, or 1.
template <int V, class Index, class T, class F>
__global__ void change_blocks_kernel(F f, const T* x, T* y, std::int64_t items, std::int64_t count,
                                     const std::int64_t* seed, const std::int64_t* ids) {
  constexpr int width = values_of_thread<V>;
  const std::int64_t runs = (count + width - 1) / width;
  const auto key = static_cast<std::uint64_t>(*seed);
  for (std::int64_t i = thread_index(); i < items * runs; i += thread_count()) {
    const auto [item, run] = divide(static_cast<Index>(i), static_cast<Index>(runs));
    const std::int64_t first = width * std::int64_t{run}, at = item * count + first;
    Values<T, width> io{};
    if constexpr (V > 1)
      io = load<V>(x, i);
    else
      for (int k = 0; k < width; ++k)
        if (first + k < count) io.values[k] = x[at + k];
    for (int block = 0; block < width / 4; ++block) {
      T* const of_block = io.values + 4 * block;
      float values[4];
      for (int k = 0; k < 4; ++k) values[k] = convert<float>(of_block[k]);
      f(words_of(key, ids[item], first / 4 + block), values);
      for (int k = 0; k < 4; ++k) of_block[k] = convert<T>(values[k]);
    }
    if constexpr (V > 1)
      store<V>(y, i, io);
    else
      for (int k = 0; k < width; ++k)
        if (first + k < count) y[at + k] = io.values[k];
  }
}

// Blocks that a channel's pixels may be part of, wherever in a block the first one is.
inline std::int64_t blocks_of_channel(std::int64_t pixels) {
  return pixels % 4 == 0 ? pixels / 4 : (pixels + 6) / 4;
}

// Channels last: a block's values are up to four pixels of a channel. Neighbouring threads take
// neighbouring channels, whose values are neighbours in memory. A block that lies in two channels
// is drawn for each of them.
template <class Index, class T, class F>
__global__ void change_blocks_of_channels_kernel(F f, const T* x, T* y, std::int64_t items,
                                                 ExampleOrder order, std::int64_t blocks,
                                                 const std::int64_t* seed,
                                                 const std::int64_t* ids) {
  const std::int64_t work = items * blocks * order.channels;
  const auto key = static_cast<std::uint64_t>(*seed);
  for (std::int64_t i = thread_index(); i < work; i += thread_count()) {
    const auto [row, channel] = divide(static_cast<Index>(i), static_cast<Index>(order.channels));
    const auto [item, number] = divide(row, static_cast<Index>(blocks));
    const Index begin = channel * static_cast<Index>(order.pixels);
    const std::int64_t block = std::int64_t{begin / 4} + number;
    // Of the block's first value; below 0 if that belongs to the channel before.
    const std::int64_t pixel = 4 * std::int64_t{number} - begin % 4;
    const std::int64_t left = order.pixels - pixel;
    if (left <= 0) continue;
    const int first = pixel < 0 ? static_cast<int>(-pixel) : 0;
    const int end = left < 4 ? static_cast<int>(left) : 4;
    const std::int64_t at = (item * order.pixels + pixel) * order.channels + channel;
    float values[4] = {};
    for (int k = 0; k < 4; ++k)
      if (first <= k && k < end) values[k] = convert<float>(x[at + k * order.channels]);
    f(words_of(key, ids[item], block), values);
    for (int k = 0; k < 4; ++k)
      if (first <= k && k < end) y[at + k * order.channels] = convert<T>(values[k]);
  }
}

// y = x with f(words, values) called for each block's four values.
template <class F>
void change_blocks(const Launch& launch, DType type, F f, const void* x, void* y,
                   std::int64_t items, const ExampleOrder& order, const std::int64_t* seed,
                   const std::int64_t* ids) {
  const std::int64_t count = order.channels * order.pixels;
  if (items * count == 0) return;
  with_float_type(type, [&](auto tag) {
    with_index(items * count, [&](auto index) {
      using T = typename decltype(tag)::type;
      using Index = decltype(index);
      const auto* const from = static_cast<const T*>(x);
      auto* const to = static_cast<T*>(y);
      if (order.is_channels_last) {
        const std::int64_t blocks = blocks_of_channel(order.pixels);
        const unsigned grid = grid_for(launch, items * blocks * order.channels);
        change_blocks_of_channels_kernel<Index><<<grid, block_threads, 0, launch.stream>>>(
            f, from, to, items, order, blocks, seed, ids);
        return;
      }
      const auto run = [&](auto at_once) {
        constexpr int V = decltype(at_once)::value, width = values_of_thread<V>;
        const unsigned grid = grid_for(launch, items * ((count + width - 1) / width));
        change_blocks_kernel<V, Index>
            <<<grid, block_threads, 0, launch.stream>>>(f, from, to, items, count, seed, ids);
      };
      constexpr int pack = Pack<T>::width;
      const bool aligned = are_aligned(x, y);
      if (aligned && count % pack == 0)
        run(std::integral_constant<int, pack>());
      else if (aligned && count % 4 == 0)
        run(std::integral_constant<int, 4>());
      else
        run(std::integral_constant<int, 1>());
    });
  });
}

}  // namespace tasuki::kernels
