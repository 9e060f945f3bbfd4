#include "tensor/cuda/accumulation_kernels.hpp"

#include "tensor/cuda/elementwise_loops.cuh"

namespace tasuki::kernels {
namespace {

struct AddScaled {
  float factor;
  __device__ float operator()(float y, float x) const { return y + factor * x; }
};
struct Scale {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};

__global__ void move_averages_kernel(const __grid_constant__ MovedAverages averages,
                                     std::int64_t count) {
  const MovedAverages::Each each = averages.each[blockIdx.y];
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    each.average[i] = each.decay * each.average[i] + each.weight * each.value[i];
}

template <class T>
__global__ void accumulate_scalar_kernel(double* sum, const T* value, double factor) {
  *sum += factor * convert<double>(*value);
}

}  // namespace

void add(const Launch& launch, DType type, const void* a, const void* b, void* c,
         std::int64_t count) {
  map_as(type, launch, AddScaled{1}, count, c, a, b);
}

void accumulate(const Launch& launch, DType type, void* y, const void* x, float factor,
                std::int64_t count) {
  map_as(type, launch, AddScaled{factor}, count, y, static_cast<const void*>(y), x);
}

void scale(const Launch& launch, DType type, void* x, float factor, std::int64_t count) {
  map_as(type, launch, Scale{factor}, count, x, static_cast<const void*>(x));
}

void move_averages(const Launch& launch, const MovedAverages& averages, std::int64_t count) {
  if (count == 0) return;
  const dim3 grid(grid_for(launch, count), static_cast<unsigned>(averages.number));
  move_averages_kernel<<<grid, block_threads, 0, launch.stream>>>(averages, count);
}

void accumulate_scalar(const Launch& launch, double* sum, DType type, const void* value,
                       double factor) {
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    accumulate_scalar_kernel<<<1, 1, 0, launch.stream>>>(sum, static_cast<const T*>(value), factor);
  });
}

}  // namespace tasuki::kernels
