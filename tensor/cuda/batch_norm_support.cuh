// Shared by the kernels of batch normalisation: values in packs, the normalisation, grids.
#pragma once

#include "tensor/cuda/batch_norm_kernels.hpp"
#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {

// The forward pass and the backward pass's ReLU must round alike.
__device__ inline float normalised(float x, float mean, float scale, float beta) {
  return __fmaf_rn(__fsub_rn(x, mean), scale, beta);
}

// --- grids ---

inline constexpr int norm_threads = 256;

// Channels last: a block of `across` x `down` threads takes `across` packs of channels in every
// (down * grid.y)th row. Plain: a block takes a share of one channel.
struct NormGrid {
  dim3 blocks, block;
};

// The power of two up to 32 that leaves the fewest threads beyond the last pack; the largest of
// those, but large enough that a row's bytes fill two sectors of 32.
inline unsigned threads_across(std::int64_t packs, int width) {
  const auto rounded_up = [packs](unsigned across) {
    return (packs + across - 1) / across * across;
  };
  unsigned best = 32;
  for (unsigned across = 16; across >= (width > 1 ? 4u : 16u); across /= 2)
    if (rounded_up(across) < rounded_up(best)) best = across;
  return best;
}

// At most `blocks` a multiprocessor, 8 of which fill it, and at least `packs_of_thread` packs for
// each thread if there are as many.
inline NormGrid grid_of(const Launch& launch, const BatchNormSize& size, int width, int blocks,
                        int packs_of_thread = 4) {
  const std::int64_t filling = std::int64_t{launch.multiprocessors} * blocks;
  const auto share = [&](std::int64_t parts, std::int64_t most) {
    const std::int64_t wanted = std::max<std::int64_t>(1, filling / parts);
    return static_cast<unsigned>(std::clamp<std::int64_t>(most, 1, std::min(wanted, filling)));
  };
  const std::int64_t values = size.items * size.pixels;
  if (!size.channels_last) {
    const std::int64_t most = values / width / (packs_of_thread * norm_threads);
    return {dim3(static_cast<unsigned>(size.channels), share(size.channels, most)),
            dim3(norm_threads)};
  }
  const std::int64_t packs = size.channels / width;
  const unsigned across = threads_across(packs, width);
  const unsigned down = norm_threads / across;
  const std::int64_t parts = (packs + across - 1) / across;
  return {dim3(static_cast<unsigned>(parts), share(parts, values / (packs_of_thread * down))),
          dim3(across, down)};
}

// How many values are read at once: 16 bytes if channels (channels last) or images (plain) consist
// of whole packs.
template <class T>
int width_for(const BatchNormSize& size) {
  const std::int64_t run = size.channels_last ? size.channels : size.pixels;
  return run % Pack<T>::width == 0 ? Pack<T>::width : 1;
}

// visitor(std::integral_constant<int, V>) with V values at once; 1 where pointers are not aligned.
template <class T, class Visitor, class... Pointers>
void with_width(const BatchNormSize& size, Visitor&& visitor, Pointers... pointers) {
  if (width_for<T>(size) > 1 && are_aligned(pointers...))
    visitor(std::integral_constant<int, Pack<T>::width>{});
  else
    visitor(std::integral_constant<int, 1>{});
}

}  // namespace tasuki::kernels
