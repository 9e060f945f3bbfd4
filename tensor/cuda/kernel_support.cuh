// Shared by all kernels: grids, indices, wide loads and stores, conversions, dispatch by type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "tensor/cuda/index.cuh"
#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

inline constexpr int block_threads = 256;

// Blocks for a grid-stride loop over `work` items: enough for all, but at most a few times what
// fills the device.
inline unsigned grid_for(const Launch& launch, std::int64_t work, int threads = block_threads) {
  const std::int64_t needed = (work + threads - 1) / threads;
  const std::int64_t filling = std::int64_t{launch.multiprocessors} * (4 * 2048 / threads);
  return static_cast<unsigned>(std::max<std::int64_t>(1, std::min(needed, filling)));
}

__device__ inline std::int64_t thread_index() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t thread_count() {
  return std::int64_t{gridDim.x} * blockDim.x;
}

template <class Index>
struct Division {
  Index whole, rest;
};

// Two digits of an element's number by one division.
template <class Index>
__device__ inline Division<Index> divide(Index number, Index divisor) {
  const Index whole = number / divisor;
  return {whole, number - whole * divisor};
}

// --- values ---

// Rounds to nearest even between floating-point types; otherwise like static_cast in C++.
template <class To, class From>
__device__ inline To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<From, __half>)
    return convert<To>(__half2float(value));
  else if constexpr (std::is_same_v<From, __nv_bfloat16>)
    return convert<To>(__bfloat162float(value));
  else if constexpr (std::is_same_v<To, __half>)
    return __float2half_rn(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, __nv_bfloat16>)
    return __float2bfloat16_rn(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

__device__ inline float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

// 16 bytes that are loaded and stored at once.
template <class T>
struct alignas(16) Pack {
  static constexpr int width = 16 / sizeof(T);
  T values[width];
};

template <class T>
__device__ inline Pack<T> load_pack(const T* from, std::int64_t index) {
  return reinterpret_cast<const Pack<T>*>(from)[index];
}
template <class T>
__device__ inline void store_pack(T* to, std::int64_t index, const Pack<T>& pack) {
  reinterpret_cast<Pack<T>*>(to)[index] = pack;
}

// V values that are loaded and stored at once; at most 16 bytes.
template <class T, int V>
struct alignas(V * sizeof(T)) Values {
  T values[V];
};
template <int V, class T>
__device__ inline Values<T, V> load(const T* from, std::int64_t index) {
  return reinterpret_cast<const Values<T, V>*>(from)[index];
}
template <int V, class T>
__device__ inline void store(T* to, std::int64_t index, const Values<T, V>& values) {
  reinterpret_cast<Values<T, V>*>(to)[index] = values;
}

// Whether all of these can be read in packs.
template <class... Pointers>
bool are_aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// --- sums over a warp or a block ---

template <class T, class Op>
__device__ inline T warp_reduce(T value, Op op) {
  for (int step = 16; step > 0; step /= 2) value = op(value, __shfl_xor_sync(~0u, value, step));
  return value;
}

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// The sum over all threads of a block of 32 n threads, in thread 0. `shared`: 32 values. The order
// of additions is fixed.
template <class T>
__device__ inline T block_sum(T value, T* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  value = warp_reduce(value, Plus());
  __syncthreads();  // shared may still be read for an earlier sum
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  if (warp == 0) value = warp_reduce(lane < warps ? shared[lane] : T(0), Plus());
  return value;
}

// --- dispatch ---

template <class T>
struct Type {
  using type = T;
};

// visitor(Type<T>{}) for the type of an activation; false for other types.
template <class Visitor>
bool with_float_type(DType type, Visitor&& visitor) {
  switch (type) {
    case DType::float32:
      visitor(Type<float>{});
      return true;
    case DType::float16:
      visitor(Type<__half>{});
      return true;
    case DType::bfloat16:
      visitor(Type<__nv_bfloat16>{});
      return true;
    default:
      return false;
  }
}

template <class Visitor>
void with_type(DType type, Visitor&& visitor) {
  switch (type) {
    case DType::float64:
      return visitor(Type<double>{});
    case DType::int32:
      return visitor(Type<std::int32_t>{});
    case DType::int64:
      return visitor(Type<std::int64_t>{});
    case DType::uint8:
      return visitor(Type<std::uint8_t>{});
    default:
      with_float_type(type, visitor);
  }
}

}  // namespace tasuki::kernels
