#include "tensor/cpu/elementwise_kernels.hpp"

#include <cmath>

#include "core/error.hpp"
#include "tensor/cpu/fast_math.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// Macros, because a function that is compiled for several processors cannot be a template.
// Expressions of x[i], p and q; of the kept value v, the gradient d, p and q.
#define TASUKI_MAP(name, expression)                                                  \
  TASUKI_VECTORIZE void name(const float* values, float* y, [[maybe_unused]] float p, \
                             [[maybe_unused]] float q, std::int64_t count) {          \
    for (std::int64_t i = 0; i < count; ++i) {                                        \
      const float x = values[i];                                                      \
      y[i] = expression;                                                              \
    }                                                                                 \
  }
#define TASUKI_MAP_GRADIENT(name, expression)                                    \
  TASUKI_VECTORIZE void name(const float* kept, const float* dy, float* dx,      \
                             [[maybe_unused]] float p, [[maybe_unused]] float q, \
                             std::int64_t count) {                               \
    for (std::int64_t i = 0; i < count; ++i) {                                   \
      [[maybe_unused]] const float v = kept[i];                                  \
      [[maybe_unused]] const float d = dy[i];                                    \
      dx[i] = expression;                                                        \
    }                                                                            \
  }

constexpr float tanh_factor = 1.5957691f;  // 2 sqrt(2 / pi)
constexpr float tanh_cubic = 0.044715f;

[[gnu::always_inline]] inline float limit(float x, float low, float high) {
  const float least = x < low ? low : x;
  return least > high ? high : least;
}

// A share of x: where the share is 0, so is the product, also of an infinite x.
[[gnu::always_inline]] inline float share_of(float x, float share) {
  const float product = x * share;
  return share == 0.0f ? 0.0f : product;
}

// Slopes are 0 or 1 far from 0, where products of x are not numbers: these take 0, or x limited to
// where slopes change. (One comparison for both of gelu's choices: a limit of x costs a sixth.)
[[gnu::always_inline]] inline float gelu_slope(float x) {
  const float exponent = -0.5f * x * x;
  const bool is_far = exponent < -86.0f;
  const NormalDistribution normal = normal_from_exp(x, fast_exp(is_far ? -86.0f : exponent));
  return normal.probability + (is_far ? 0.0f : x) * normal.density;
}

// (1 + tanh(u)) / 2 = sigmoid(2 u) of the approximation's u.
[[gnu::always_inline]] inline float tanh_probability(float x) {
  return fast_sigmoid(tanh_factor * (x + tanh_cubic * x * x * x));
}

[[gnu::always_inline]] inline float gelu_tanh_slope(float x) {
  const float s = tanh_probability(x), near = limit(x, -10.0f, 10.0f);
  return s + near * s * (1.0f - s) * tanh_factor * (1.0f + 3.0f * tanh_cubic * near * near);
}

[[gnu::always_inline]] inline float silu_slope(float x) {
  const float s = fast_sigmoid(x);
  return s + limit(x, -88.0f, 88.0f) * s * (1.0f - s);
}

[[gnu::always_inline]] inline float elu(float x, float p) {
  const float negative = p * fast_expm1(x > 0.0f ? 0.0f : x);
  return x > 0.0f ? x : negative;
}

[[gnu::always_inline]] inline float elu_slope(float x, float p) {
  const float limited = x > 0.0f ? 0.0f : x;
  const float negative = p * full_exp(limited);
  return x > 0.0f ? 1.0f : negative;
}

[[gnu::always_inline]] inline float softplus(float x, float p) {
  const float scaled = p * x;
  return (scaled < 0.0f ? 0.0f : x) + fast_log1p(limited_exp(-__builtin_fabsf(scaled))) / p;
}

// clang-format off: it takes products for declarations of pointers.
TASUKI_MAP(affine, p* x + q)
TASUKI_MAP(quotient, p / x)
TASUKI_MAP(square, x* x)
TASUKI_MAP(cube, x* x* x)
TASUKI_MAP(power, std::pow(x, p))
TASUKI_MAP(exp_map, full_exp(x))
TASUKI_MAP(log_map, fast_log(x))
TASUKI_MAP(sqrt_map, std::sqrt(x))
TASUKI_MAP(abs_map, __builtin_fabsf(x))
TASUKI_MAP(clip_map, limit(x, p, q))
TASUKI_MAP(gelu_map, share_of(x, normal_distribution(x).probability))
TASUKI_MAP(gelu_tanh_map, share_of(x, tanh_probability(x)))
TASUKI_MAP(silu_map, share_of(x, fast_sigmoid(x)))
TASUKI_MAP(elu_map, elu(x, p))
TASUKI_MAP(softplus_map, softplus(x, p))

TASUKI_MAP_GRADIENT(affine_gradient, p* d)
TASUKI_MAP_GRADIENT(quotient_gradient, -d*((p / v) / v))
TASUKI_MAP_GRADIENT(square_gradient, 2.0f * v * d)
TASUKI_MAP_GRADIENT(cube_gradient, 3.0f * v * v * d)
TASUKI_MAP_GRADIENT(power_gradient, d* p* std::pow(v, p - 1.0f))
TASUKI_MAP_GRADIENT(no_gradient, 0.0f)
TASUKI_MAP_GRADIENT(exp_gradient, d* v)
TASUKI_MAP_GRADIENT(log_gradient, d / v)
TASUKI_MAP_GRADIENT(sqrt_gradient, 0.5f * d / v)
TASUKI_MAP_GRADIENT(abs_gradient, v > 0.0f ? d : (v < 0.0f ? -d : 0.0f))
TASUKI_MAP_GRADIENT(clip_gradient, v < p ? 0.0f : (v > q ? 0.0f : d))
TASUKI_MAP_GRADIENT(gelu_gradient, d* gelu_slope(v))
TASUKI_MAP_GRADIENT(gelu_tanh_gradient, d* gelu_tanh_slope(v))
TASUKI_MAP_GRADIENT(silu_gradient, d* silu_slope(v))
TASUKI_MAP_GRADIENT(elu_gradient, d* elu_slope(v, p))
TASUKI_MAP_GRADIENT(softplus_gradient, d* fast_sigmoid(p* v))
// clang-format on

#undef TASUKI_MAP
#undef TASUKI_MAP_GRADIENT

}  // namespace

MapKernel map_kernel(Map f, float p) {
  switch (f) {
    case Map::affine:
      return affine;
    case Map::quotient:
      return quotient;
    case Map::power:
      return p == 2 ? square : p == 3 ? cube : power;
    case Map::exp:
      return exp_map;
    case Map::log:
      return log_map;
    case Map::sqrt:
      return sqrt_map;
    case Map::abs:
      return abs_map;
    case Map::clip:
      return clip_map;
    case Map::gelu:
      return gelu_map;
    case Map::gelu_tanh:
      return gelu_tanh_map;
    case Map::silu:
      return silu_map;
    case Map::elu:
      return elu_map;
    case Map::softplus:
      return softplus_map;
  }
  fail(ErrorKind::internal, "unknown element-wise function {}", static_cast<int>(f));
}

MapGradientKernel map_gradient_kernel(Map f, float p) {
  switch (f) {
    case Map::affine:
      return affine_gradient;
    case Map::quotient:
      return quotient_gradient;
    case Map::power:
      return p == 0   ? no_gradient
             : p == 2 ? square_gradient
             : p == 3 ? cube_gradient
                      : power_gradient;
    case Map::exp:
      return exp_gradient;
    case Map::log:
      return log_gradient;
    case Map::sqrt:
      return sqrt_gradient;
    case Map::abs:
      return abs_gradient;
    case Map::clip:
      return clip_gradient;
    case Map::gelu:
      return gelu_gradient;
    case Map::gelu_tanh:
      return gelu_tanh_gradient;
    case Map::silu:
      return silu_gradient;
    case Map::elu:
      return elu_gradient;
    case Map::softplus:
      return softplus_gradient;
  }
  fail(ErrorKind::internal, "unknown element-wise function {}", static_cast<int>(f));
}

}  // namespace tasuki
