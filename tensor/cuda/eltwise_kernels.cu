#include "tensor/cuda/elementwise_kernels.hpp"

#include "tensor/cuda/map.cuh"

namespace tasuki::kernels {
namespace {

struct Relu {
  __device__ float operator()(float x) const { return x < 0 ? 0 : x; }
};
struct LeakyRelu {
  float slope;
  __device__ float operator()(float x) const { return x * (x > 0 ? 1.0f : slope); }
};
struct Sigmoid {
  __device__ float operator()(float x) const { return sigmoid(x); }
};
struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
};
struct ReluBackward {
  __device__ float operator()(float y, float dy) const { return y <= 0 ? 0 : dy; }
};
struct LeakyReluBackward {
  float slope;
  __device__ float operator()(float y, float dy) const { return dy * (y > 0 ? 1.0f : slope); }
};
struct SigmoidBackward {
  __device__ float operator()(float y, float dy) const { return dy * y * (1 - y); }
};
struct TanhBackward {
  __device__ float operator()(float y, float dy) const { return dy * (1 - y * y); }
};
struct AddScaled {
  float factor;
  __device__ float operator()(float y, float x) const { return y + factor * x; }
};
struct Scale {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};

__global__ void move_averages_kernel(MovedAverages averages, std::int64_t count) {
  const MovedAverages::Each each = averages.each[blockIdx.y];
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    each.average[i] = each.decay * each.average[i] + each.weight * each.value[i];
}

template <class T>
__global__ void accumulate_scalar_kernel(double* sum, const T* value, double factor) {
  *sum += factor * convert<double>(*value);
}

}  // namespace

void apply(const Launch& launch, Unary op, DType type, const void* x, void* y, float slope,
           std::int64_t count) {
  switch (op) {
    case Unary::relu:
      return map_as(type, launch, Relu{}, count, y, x);
    case Unary::leaky_relu:
      return map_as(type, launch, LeakyRelu{slope}, count, y, x);
    case Unary::sigmoid:
      return map_as(type, launch, Sigmoid{}, count, y, x);
    case Unary::tanh:
      return map_as(type, launch, Tanh{}, count, y, x);
  }
}

void apply_backward(const Launch& launch, Unary op, DType type, const void* y, const void* dy,
                    void* dx, float slope, std::int64_t count) {
  switch (op) {
    case Unary::relu:
      return map_as(type, launch, ReluBackward{}, count, dx, y, dy);
    case Unary::leaky_relu:
      return map_as(type, launch, LeakyReluBackward{slope}, count, dx, y, dy);
    case Unary::sigmoid:
      return map_as(type, launch, SigmoidBackward{}, count, dx, y, dy);
    case Unary::tanh:
      return map_as(type, launch, TanhBackward{}, count, dx, y, dy);
  }
}

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
