#include "tensor/cuda/elementwise_kernels.hpp"

#include "tensor/cuda/elementwise_loops.cuh"

namespace tasuki::kernels {
namespace {

constexpr float root_half = 0.70710678f;     // sqrt(1/2)
constexpr float density_at_0 = 0.39894228f;  // 1 / sqrt(2 pi)
constexpr float tanh_factor = 1.5957691f;    // 2 sqrt(2 / pi)
constexpr float tanh_cubic = 0.044715f;

__device__ inline float normal_probability(float x) {
  return 0.5f + 0.5f * erff(x * root_half);
}
// (1 + tanh(u)) / 2 = sigmoid(2 u) of the approximation's u.
__device__ inline float tanh_probability(float x) {
  return sigmoid(tanh_factor * (x + tanh_cubic * x * x * x));
}
// A share of x: where the share is 0, so is the product, also of an infinite x.
__device__ inline float share_of(float x, float share) {
  return share == 0 ? 0 : x * share;
}
// Slopes are 0 or 1 far from 0, where products of x are not numbers: they take x limited to where
// slopes change.
__device__ inline float limit(float x, float low, float high) {
  return x < low ? low : x > high ? high : x;
}

struct Affine {
  float p, q;
  __device__ float operator()(float x) const { return p * x + q; }
};
struct Quotient {
  float p, q;
  __device__ float operator()(float x) const { return p / x; }
};
struct Power {
  float p, q;
  __device__ float operator()(float x) const { return p == 2 ? x * x : powf(x, p); }
};
struct Exp {
  float p, q;
  __device__ float operator()(float x) const { return expf(x); }
};
struct Log {
  float p, q;
  __device__ float operator()(float x) const { return logf(x); }
};
struct Sqrt {
  float p, q;
  __device__ float operator()(float x) const { return sqrtf(x); }
};
struct Abs {
  float p, q;
  __device__ float operator()(float x) const { return fabsf(x); }
};
struct Clip {
  float p, q;
  __device__ float operator()(float x) const { return limit(x, p, q); }
};
struct Gelu {
  float p, q;
  __device__ float operator()(float x) const { return share_of(x, normal_probability(x)); }
};
struct GeluTanh {
  float p, q;
  __device__ float operator()(float x) const { return share_of(x, tanh_probability(x)); }
};
struct Silu {
  float p, q;
  __device__ float operator()(float x) const { return share_of(x, sigmoid(x)); }
};
struct Elu {
  float p, q;
  __device__ float operator()(float x) const { return x > 0 ? x : p * expm1f(x); }
};
struct Softplus {
  float p, q;
  __device__ float operator()(float x) const {
    const float scaled = p * x;
    return (scaled < 0 ? 0 : x) + log1pf(expf(-fabsf(scaled))) / p;
  }
};

struct AffineGradient {
  float p, q;
  __device__ float operator()(float, float d) const { return d * p; }
};
struct QuotientGradient {
  float p, q;
  __device__ float operator()(float x, float d) const { return -d * (p / x / x); }
};
struct PowerGradient {
  float p, q;
  __device__ float operator()(float x, float d) const {
    return p == 0 ? 0 : p == 2 ? 2 * x * d : d * p * powf(x, p - 1);
  }
};
struct ExpGradient {
  float p, q;
  __device__ float operator()(float y, float d) const { return d * y; }
};
struct LogGradient {
  float p, q;
  __device__ float operator()(float x, float d) const { return d / x; }
};
struct SqrtGradient {
  float p, q;
  __device__ float operator()(float y, float d) const { return 0.5f * d / y; }
};
struct AbsGradient {
  float p, q;
  __device__ float operator()(float x, float d) const { return x > 0 ? d : x < 0 ? -d : 0; }
};
struct ClipGradient {
  float p, q;
  __device__ float operator()(float x, float d) const { return x < p || x > q ? 0 : d; }
};
struct GeluGradient {
  float p, q;
  __device__ float operator()(float x, float d) const {
    const float density = density_at_0 * expf(-0.5f * x * x);
    return d * (normal_probability(x) + limit(x, -15, 15) * density);
  }
};
struct GeluTanhGradient {
  float p, q;
  __device__ float operator()(float x, float d) const {
    const float s = tanh_probability(x), near = limit(x, -10, 10);
    return d * (s + near * s * (1 - s) * tanh_factor * (1 + 3 * tanh_cubic * near * near));
  }
};
struct SiluGradient {
  float p, q;
  __device__ float operator()(float x, float d) const {
    const float s = sigmoid(x);
    return d * (s + limit(x, -104, 104) * s * (1 - s));
  }
};
struct EluGradient {
  float p, q;
  __device__ float operator()(float x, float d) const { return x > 0 ? d : d * p * expf(x); }
};
struct SoftplusGradient {
  float p, q;
  __device__ float operator()(float x, float d) const { return d * sigmoid(p * x); }
};

}  // namespace

void map(const Launch& launch, Map f, DType type, const void* x, void* y, float p, float q,
         std::int64_t count) {
  const auto run = [&](auto function) { map_as(type, launch, function, count, y, x); };
  switch (f) {
    case Map::affine:
      return run(Affine{p, q});
    case Map::quotient:
      return run(Quotient{p, q});
    case Map::power:
      return run(Power{p, q});
    case Map::exp:
      return run(Exp{p, q});
    case Map::log:
      return run(Log{p, q});
    case Map::sqrt:
      return run(Sqrt{p, q});
    case Map::abs:
      return run(Abs{p, q});
    case Map::clip:
      return run(Clip{p, q});
    case Map::gelu:
      return run(Gelu{p, q});
    case Map::gelu_tanh:
      return run(GeluTanh{p, q});
    case Map::silu:
      return run(Silu{p, q});
    case Map::elu:
      return run(Elu{p, q});
    case Map::softplus:
      return run(Softplus{p, q});
  }
}

void map_gradient(const Launch& launch, Map f, DType type, const void* kept, const void* dy,
                  void* dx, float p, float q, std::int64_t count) {
  const auto run = [&](auto function) { map_as(type, launch, function, count, dx, kept, dy); };
  switch (f) {
    case Map::affine:
      return run(AffineGradient{p, q});
    case Map::quotient:
      return run(QuotientGradient{p, q});
    case Map::power:
      return run(PowerGradient{p, q});
    case Map::exp:
      return run(ExpGradient{p, q});
    case Map::log:
      return run(LogGradient{p, q});
    case Map::sqrt:
      return run(SqrtGradient{p, q});
    case Map::abs:
      return run(AbsGradient{p, q});
    case Map::clip:
      return run(ClipGradient{p, q});
    case Map::gelu:
      return run(GeluGradient{p, q});
    case Map::gelu_tanh:
      return run(GeluTanhGradient{p, q});
    case Map::silu:
      return run(SiluGradient{p, q});
    case Map::elu:
      return run(EluGradient{p, q});
    case Map::softplus:
      return run(SoftplusGradient{p, q});
  }
}

}  // namespace tasuki::kernels
