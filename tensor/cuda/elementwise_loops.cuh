// Loops that compute each element of an array from those at the same place in others.
#pragma once

#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {

// y[i] = f(x[i]...). The first `packs` packs of 16 bytes are read and written whole, the rest one
// by one.
template <class T, class F, class... Inputs>
__global__ void map_kernel(F f, std::int64_t packs, std::int64_t count, T* y, const Inputs*... x) {
  constexpr int width = Pack<T>::width;
  for (std::int64_t i = thread_index(); i < packs; i += thread_count()) {
    const auto compute = [&](const Pack<Inputs>&... in) {
      Pack<T> out;
      for (int j = 0; j < width; ++j)
        out.values[j] = convert<T>(f(convert<float>(in.values[j])...));
      return out;
    };
    store_pack(y, i, compute(load_pack(x, i)...));
  }
  for (std::int64_t i = packs * width + thread_index(); i < count; i += thread_count())
    y[i] = convert<T>(f(convert<float>(x[i])...));
}

template <class T, class F, class... Inputs>
void map(const Launch& launch, F f, std::int64_t count, T* y, const Inputs*... x) {
  if (count == 0) return;
  const std::int64_t packs = are_aligned(y, x...) ? count / Pack<T>::width : 0;
  const std::int64_t work = packs > 0 ? packs : count;
  map_kernel<<<grid_for(launch, work), block_threads, 0, launch.stream>>>(f, packs, count, y, x...);
}

// map() with y and x of one type, chosen at run time.
template <class F, class... Inputs>
void map_as(DType type, const Launch& launch, F f, std::int64_t count, void* y, Inputs... x) {
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map(launch, f, count, static_cast<T*>(y), static_cast<const T*>(x)...);
  });
}

}  // namespace tasuki::kernels
