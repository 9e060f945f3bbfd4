#include "communicator/cuda/wire_kernels.hpp"
#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

// Eight values at a time if both arrays are aligned for it: 16 bytes of the wire, 32 of the values.
constexpr int width = 8;
template <class T>
struct alignas(16) Eight {
  T values[width];
};

template <class To, class From>
__global__ void scale_kernel(To* to, const From* from, std::int64_t eights, std::int64_t count,
                             float factor) {
  for (std::int64_t i = thread_index(); i < eights; i += thread_count()) {
    const Eight<From> in = reinterpret_cast<const Eight<From>*>(from)[i];
    Eight<To> out;
    for (int j = 0; j < width; ++j)
      out.values[j] = convert<To>(convert<float>(in.values[j]) * factor);
    reinterpret_cast<Eight<To>*>(to)[i] = out;
  }
  for (std::int64_t i = eights * width + thread_index(); i < count; i += thread_count())
    to[i] = convert<To>(convert<float>(from[i]) * factor);
}

template <class To, class From>
void scale(const Launch& launch, To* to, const From* from, std::int64_t count, float factor) {
  const std::int64_t eights = are_aligned(to, from) ? count / width : 0;
  const std::int64_t work = eights > 0 ? eights : count;
  scale_kernel<<<grid_for(launch, work), block_threads, 0, launch.stream>>>(to, from, eights, count,
                                                                            factor);
}

}  // namespace

void narrow(const Launch& launch, void* wire, DType type, const float* values, std::int64_t count,
            float factor) {
  if (type == DType::float16) {
    scale(launch, static_cast<__half*>(wire), values, count, factor);
  } else {
    scale(launch, static_cast<__nv_bfloat16*>(wire), values, count, factor);
  }
}

void widen(const Launch& launch, float* values, const void* wire, DType type, std::int64_t count,
           float factor) {
  if (type == DType::float16) {
    scale(launch, values, static_cast<const __half*>(wire), count, factor);
  } else {
    scale(launch, values, static_cast<const __nv_bfloat16*>(wire), count, factor);
  }
}

}  // namespace tasuki::kernels
