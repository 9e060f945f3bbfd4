// Optimizers' updates, one fused pass over the arena, and the norm of an array.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "core/range.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/half.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// Threads and partial sums take whole blocks.
constexpr std::int64_t block = norm_block;

// The arrays of a pass never overlap, which lets the compiler keep values in registers.
struct Arrays {
  float* __restrict p;
  const float* __restrict gradient;
  float* __restrict s;  // first state
  float* __restrict r;  // second state
};
[[gnu::always_inline]] inline Arrays arrays_of(const UpdatePass& pass) {
  return {pass.parameter, pass.gradient, pass.state[0], pass.state[1]};
}

TASUKI_VECTORIZE void sgd(const UpdatePass& pass, const UpdateFactors& k, std::int64_t begin,
                          std::int64_t end) {
  const auto [p, gradient, s, r] = arrays_of(pass);
  const float scale = k.scale, decay = k.decay, rate = k.of_rule[0];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    p[i] -= rate * g;
  }
}

TASUKI_VECTORIZE void momentum_sgd(const UpdatePass& pass, const UpdateFactors& k,
                                   std::int64_t begin, std::int64_t end) {
  const auto [p, gradient, v, unused] = arrays_of(pass);
  const float scale = k.scale, decay = k.decay, rate = k.of_rule[0];
  const float momentum = k.of_rule[1];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    v[i] = momentum * v[i] - rate * g;
    p[i] += v[i];
  }
}

TASUKI_VECTORIZE void nesterov(const UpdatePass& pass, const UpdateFactors& k, std::int64_t begin,
                               std::int64_t end) {
  const auto [p, gradient, v, unused] = arrays_of(pass);
  const float scale = k.scale, decay = k.decay, rate = k.of_rule[0];
  const float momentum = k.of_rule[1];
  const float of_velocity = momentum * momentum, of_gradient = (1 + momentum) * rate;
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    v[i] = momentum * v[i] - rate * g;
    p[i] += of_velocity * v[i] - of_gradient * g;
  }
}

TASUKI_VECTORIZE void adam(const UpdatePass& pass, const UpdateFactors& k, std::int64_t begin,
                           std::int64_t end) {
  const auto [p, gradient, m, v] = arrays_of(pass);
  const float scale = k.scale, decay = k.decay, rate = k.of_rule[0];
  const float new_m = k.of_rule[1], new_v = k.of_rule[2], eps = k.of_rule[3];
  const float decoupled_decay = k.of_rule[4];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    m[i] += new_m * (g - m[i]);
    v[i] += new_v * (g * g - v[i]);
    p[i] -= rate * (m[i] / (__builtin_sqrtf(v[i]) + eps)) + decoupled_decay * p[i];
  }
}

TASUKI_VECTORIZE void rmsprop(const UpdatePass& pass, const UpdateFactors& k, std::int64_t begin,
                              std::int64_t end) {
  const auto [p, gradient, ms, unused] = arrays_of(pass);
  const float scale = k.scale, decay = k.decay, rate = k.of_rule[0];
  const float new_ms = k.of_rule[1], eps = k.of_rule[2];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    ms[i] += new_ms * (g * g - ms[i]);
    p[i] -= rate * (g / (__builtin_sqrtf(ms[i]) + eps));
  }
}

TASUKI_VECTORIZE void adagrad(const UpdatePass& pass, const UpdateFactors& k, std::int64_t begin,
                              std::int64_t end) {
  const auto [p, gradient, h, unused] = arrays_of(pass);
  const float scale = k.scale, decay = k.decay, rate = k.of_rule[0];
  const float eps = k.of_rule[1];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    h[i] += g * g;
    p[i] -= rate * (g / (__builtin_sqrtf(h[i]) + eps));
  }
}

TASUKI_VECTORIZE void adadelta(const UpdatePass& pass, const UpdateFactors& k, std::int64_t begin,
                               std::int64_t end) {
  const auto [p, gradient, msg, msdx] = arrays_of(pass);
  const float scale = k.scale, decay = k.decay;
  const float fresh = k.of_rule[0], eps = k.of_rule[1];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    msg[i] += fresh * (g * g - msg[i]);
    const float dx = __builtin_sqrtf((msdx[i] + eps) / (msg[i] + eps)) * g;
    msdx[i] += fresh * (dx * dx - msdx[i]);
    p[i] -= dx;
  }
}

// The direction of LAMB, which both of its passes compute.
struct LambDirection {
  const float* __restrict p;
  const float* __restrict m;
  const float* __restrict v;
  float eps, decay, of_m, of_v;  // the last two: bias corrections
  [[gnu::always_inline]] float at(std::int64_t i) const {
    return of_m * m[i] / (__builtin_sqrtf(of_v * v[i]) + eps) + decay * p[i];
  }
};
[[gnu::always_inline]] inline LambDirection lamb_direction(const UpdateFactors& k, const float* p,
                                                           const float* m, const float* v) {
  return {p, m, v, k.of_rule[3], k.of_rule[4], k.of_rule[5], k.of_rule[6]};
}

TASUKI_VECTORIZE void lamb_moments(const LambPass& pass, const UpdateFactors& k, std::int64_t begin,
                                   std::int64_t end) {
  const float* __restrict p = pass.parameter;
  const float* __restrict gradient = pass.gradient;
  float* __restrict m = pass.state[0];
  float* __restrict v = pass.state[1];
  const float scale = k.scale, decay = k.decay, new_m = k.of_rule[1], new_v = k.of_rule[2];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    m[i] += new_m * (g - m[i]);
    v[i] += new_v * (g * g - v[i]);
  }
}

TASUKI_VECTORIZE void lamb_step(float* __restrict p, const float* __restrict m,
                                const float* __restrict v, const UpdateFactors& k, float rate,
                                std::int64_t begin, std::int64_t end) {
  const LambDirection r = lamb_direction(k, p, m, v);
  for (std::int64_t i = begin; i < end; ++i) p[i] -= rate * r.at(i);
}

// Elements of one parameter at once.
void lamb(const UpdatePass& pass, const UpdateFactors& k, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t line = elements_per_row_number;
  while (begin < end) {
    const std::int32_t parameter = pass.parameter_of[begin / line];
    std::int64_t next = begin / line + 1;
    while (next * line < end && pass.parameter_of[next] == parameter) ++next;
    const std::int64_t stop = std::min(next * line, end);
    lamb_step(pass.parameter, pass.state[0], pass.state[1], k,
              k.of_rule[0] * pass.ratios[parameter], begin, stop);
    begin = stop;
  }
}

// The order of roundings is that of two passes: the first scales, the second adds.
TASUKI_VECTORIZE void combine(const UpdatePass& pass, const UpdateFactors& k, std::int64_t begin,
                              std::int64_t end) {
  const auto [p, gradient, s, r] = arrays_of(pass);
  const float scale = k.scale, decay = k.decay;
  for (std::int64_t i = begin; i < end; ++i) p[i] = scale * p[i] + decay * gradient[i];
}

// A float's square is exact in double and the order of additions is written down, so the sum is the
// same on every processor.
template <class At>
[[gnu::always_inline]] inline double sum_of_squares(std::int64_t count, const At& at) {
  constexpr int lanes = 16;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      const double value = at(i + lane);
      sums[lane] += value * value;
    }
  }
  for (int lane = 0; i < count; ++i, ++lane) sums[lane] += double{at(i)} * double{at(i)};
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

TASUKI_VECTORIZE double block_squared_norm(const float* values, std::int64_t count) {
  return sum_of_squares(count, [values](std::int64_t i) { return values[i]; });
}

TASUKI_VECTORIZE double block_squared_norm_of_g(const float* gradient, const float* parameter,
                                                std::int64_t count, float scale, float decay) {
  return sum_of_squares(count,
                        [=](std::int64_t i) { return scale * gradient[i] + decay * parameter[i]; });
}

TASUKI_VECTORIZE double block_squared_norm_of_r(const float* parameter, const float* m,
                                                const float* v, const UpdateFactors& k,
                                                std::int64_t count) {
  const LambDirection r = lamb_direction(k, parameter, m, v);
  return sum_of_squares(count, [&r](std::int64_t i) { return r.at(i); });
}

using Kernel = void (*)(const UpdatePass&, const UpdateFactors&, std::int64_t, std::int64_t);

Kernel find_kernel(UpdateKernel kernel) {
  switch (kernel) {
    case UpdateKernel::sgd:
      return sgd;
    case UpdateKernel::momentum_sgd:
      return momentum_sgd;
    case UpdateKernel::nesterov:
      return nesterov;
    case UpdateKernel::adam:
      return adam;
    case UpdateKernel::rmsprop:
      return rmsprop;
    case UpdateKernel::adagrad:
      return adagrad;
    case UpdateKernel::adadelta:
      return adadelta;
    case UpdateKernel::lamb:
      return lamb;
    case UpdateKernel::combine:
      return combine;
  }
  fail(ErrorKind::internal, "update kernel {} does not exist", static_cast<int>(kernel));
}

// Elements that have the same factors at once.
void run(Kernel kernel, const UpdatePass& pass, std::int64_t begin, std::int64_t end) {
  if (pass.rows == nullptr)
    return kernel(pass, pass.table != nullptr ? *pass.table : pass.factors, begin, end);
  constexpr std::int64_t line = elements_per_row_number;
  while (begin < end) {
    const FactorRow row = pass.rows[begin / line];
    std::int64_t next = begin / line + 1;
    while (next * line < end && pass.rows[next] == row) ++next;
    const std::int64_t stop = std::min(next * line, end);
    kernel(pass, pass.table[row], begin, stop);
    begin = stop;
  }
}

std::int64_t blocks_of(std::int64_t count) {
  return (count + block - 1) / block;
}

// One sum a block, added in order: the result does not depend on the number of threads.
template <class OfBlock>
double sum_over_blocks(std::int64_t count, const OfBlock& of_block) {
  std::vector<double> sums(static_cast<std::size_t>(blocks_of(count)));
  parallel_for(blocks_of(count), elementwise_grain / block,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t b = begin; b < end; ++b)
                   sums[static_cast<std::size_t>(b)] =
                       of_block(b * block, std::min(block, count - b * block));
               });
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

// of_block(begin, count) for the part of a segment that lies in each block of the arena.
template <class OfBlock>
void for_blocks(Range segment, const OfBlock& of_block) {
  for (std::int64_t begin = segment.begin, end = 0; begin < segment.end; begin = end) {
    end = std::min((begin / block + 1) * block, segment.end);
    of_block(begin, end - begin);
  }
}

// of_segment(number, factors, segment) for all segments of a NormPass or LambPass. They are many
// and short, so threads take whole ones.
template <class Pass, class OfSegment>
void for_segments(const Pass& pass, const OfSegment& of_segment) {
  parallel_for(pass.parameters, elementwise_grain / block,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t k = begin; k < end; ++k) {
                   const std::int64_t first = pass.segments[2 * k];
                   const std::size_t row =
                       pass.rows != nullptr ? pass.rows[first / elements_per_row_number] : 0;
                   of_segment(k, pass.table != nullptr ? pass.table[row] : pass.factors,
                              Range{first, first + pass.segments[2 * k + 1]});
                 }
               });
}

double squared_norm_of(const float* values, std::int64_t count) {
  return sum_over_blocks(count, [values](std::int64_t begin, std::int64_t part) {
    return block_squared_norm(values + begin, part);
  });
}

}  // namespace

void CpuBackend::update(const UpdatePass& pass) {
  if (pass.skip != nullptr && *pass.skip != 0) return;
  const Kernel kernel = find_kernel(pass.kernel);
  auto* const rounded = static_cast<std::uint16_t*>(pass.rounded);
  const auto narrow = half_format(pass.rounded_type).narrow;
  parallel_for(blocks_of(pass.count), elementwise_grain / block,
               [&](std::int64_t begin, std::int64_t end) {
                 const std::int64_t last = std::min(end * block, pass.count);
                 if (rounded == nullptr) return run(kernel, pass, begin * block, last);
                 // Block by block, while the new weights are in the first cache.
                 for (std::int64_t at = begin * block; at < last; at += block) {
                   const std::int64_t stop = std::min(at + block, last);
                   run(kernel, pass, at, stop);
                   narrow(rounded + at, pass.parameter + at, stop - at);
                 }
               });
}

double CpuBackend::squared_norm(const Tensor& x) {
  const Tensor plain = x.plain();
  return squared_norm_of(plain.data<float>(), plain.count());
}

void CpuBackend::norms(const NormPass& pass) {
  for_segments(pass, [&](std::int64_t k, const UpdateFactors& factors, Range segment) {
    double w = 0, g = 0;
    for_blocks(segment, [&](std::int64_t begin, std::int64_t count) {
      const float* const weights = pass.parameter + begin;
      w += block_squared_norm(weights, count);
      g += block_squared_norm_of_g(pass.gradient + begin, weights, count, factors.scale,
                                   factors.decay);
    });
    pass.norms[2 * k] = pass.squared ? w : std::sqrt(w);
    pass.norms[2 * k + 1] = pass.squared ? g : std::sqrt(g);
  });
}

// A block's moments, and its part of the norms while they are in the cache.
void CpuBackend::lamb(const LambPass& pass) {
  if (pass.skip != nullptr && *pass.skip != 0) return;
  for_segments(pass, [&](std::int64_t k, const UpdateFactors& factors, Range segment) {
    double w = 0, r = 0;
    for_blocks(segment, [&](std::int64_t begin, std::int64_t count) {
      lamb_moments(pass, factors, begin, begin + count);
      const float* const weights = pass.parameter + begin;
      w += block_squared_norm(weights, count);
      r += block_squared_norm_of_r(weights, pass.state[0] + begin, pass.state[1] + begin, factors,
                                   count);
    });
    if (pass.squares != nullptr) {
      pass.squares[2 * k] = w;
      pass.squares[2 * k + 1] = r;
    } else {
      pass.ratios[k] = LambPass::ratio(w, r, double{factors.of_rule[7]});
    }
  });
}

}  // namespace tasuki
