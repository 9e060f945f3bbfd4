#include "tensor/cuda/activation_kernels.hpp"

#include "tensor/cuda/elementwise_loops.cuh"

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

}  // namespace tasuki::kernels
