// What updates of arenas compute, as plain values, shared by backends and their kernels: the passes
// of optimizers, norms for them, and the scaling of gradients.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/device.hpp"
#include "tensor/dtype.hpp"

namespace tasuki {

// What the update of an element is computed from: g = scale * gradient + decay * parameter, and the
// numbers of the rule (UpdateRule::factors).
inline constexpr int most_rule_factors = 8;
struct UpdateFactors {
  float scale = 1, decay = 0;
  float of_rule[most_rule_factors] = {};
};

// Rows of a table of UpdateFactors, and which of them each element has. Offsets of parameters are
// multiples of 16 elements.
using FactorRow = std::uint16_t;
inline constexpr std::int64_t elements_per_row_number = 16;

// One fused pass that updates an arena: for every element i, g as above, then the rule. Numbers of
// the rules: the learning rate as it multiplies this step (Adam: eta and both bias corrections
// folded in), and constants; decay factors of averages as 1 - factor, which float would round
// badly.
//   sgd: rate
//   momentum_sgd, nesterov: rate, momentum
//   adam: rate, 1 - beta1, 1 - beta2, eps, eta * weight_decay_rate
//   rmsprop: rate, 1 - alpha, eps
//   adagrad: rate, eps
//   adadelta: 1 - rho, eps
//   lamb: rate, 1 - beta1, 1 - beta2, eps, weight_decay_rate, 1 / (1 - beta1^t), 1 / (1 - beta2^t),
//     trust; it is the second pass of two (LambPass) and changes no state
// combine is not a rule: parameter = scale * parameter + decay * gradient. It is called with
// gradients as `parameter` and weights as `gradient`, and writes g to where the gradient was.
enum class UpdateKernel {
  sgd,
  momentum_sgd,
  nesterov,
  adam,
  rmsprop,
  adagrad,
  adadelta,
  lamb,
  combine
};
struct UpdatePass {
  Device device;  // where the arrays are
  UpdateKernel kernel = UpdateKernel::sgd;
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float* state[2] = {nullptr, nullptr};  // v | m, v | ms | h | msg, msdx | m, v
  std::int64_t count = 0;
  // The factors of all elements, or a table of factors in the device's memory, read when the update
  // runs.
  UpdateFactors factors;
  const UpdateFactors* table = nullptr;
  // The table row of each 16 elements, from `parameter` on, in the device's memory; null: row 0 for
  // all.
  const FactorRow* rows = nullptr;
  // In the device's memory: a number that, when it is not 0, makes the update change nothing.
  const float* skip = nullptr;
  // A second copy of each new parameter, rounded to float16 or bfloat16; may be null.
  void* rounded = nullptr;
  DType rounded_type = DType::bfloat16;
  // For lamb, in the device's memory: LambPass::ratios, and the index of the ratio of each 16
  // elements.
  const float* ratios = nullptr;
  const std::int32_t* parameter_of = nullptr;
};

// A factor: a number, or one in the memory of the device that uses it, read when the work runs.
struct LateScale {
  double value = 1;
  const double* on_device = nullptr;
};

// CPUs add up squares in blocks of this many elements, which begin at its multiples in an arena.
// Threads and ranks divide a sum only where a block ends.
inline constexpr std::int64_t norm_block = 4096;

// L2 norms of each parameter of an arena and of its g, as above, in double.
struct NormPass {
  Device device;
  const float* parameter = nullptr;
  const float* gradient = nullptr;
  // The first element of each parameter, a multiple of 16, and its number of elements: 2 x
  // parameters numbers in the device's memory.
  const std::int64_t* segments = nullptr;
  std::int64_t parameters = 0;
  UpdateFactors factors;  // these, the table and the rows as in an UpdatePass
  const UpdateFactors* table = nullptr;
  const FactorRow* rows = nullptr;
  double* norms = nullptr;  // |w| and |g| of parameter k at 2 k
  // On a CPU: sums of squares instead, of segments that may be parts of parameters.
  bool squared = false;
};

// The first pass of LAMB (You et al., arXiv 1904.00962) over an arena, with g as above:
//   m += (1 - beta1)(g - m);  v += (1 - beta2)(g^2 - v)
// and for each parameter the trust ratio (|w| / |r|)^trust of L2 norms in double, 1 if one of them
// is 0, where r = m' / (sqrt(v') + eps) + weight_decay_rate * w with m' = m / (1 - beta1^t) and
// v' = v / (1 - beta2^t). The second pass, UpdateKernel::lamb, is w -= rate * ratio * r.
struct LambPass {
  Device device;
  const float* parameter = nullptr;
  const float* gradient = nullptr;
  float* state[2] = {nullptr, nullptr};    // m, v
  const std::int64_t* segments = nullptr;  // these and the following as in a NormPass
  std::int64_t parameters = 0;
  UpdateFactors factors;
  const UpdateFactors* table = nullptr;
  const FactorRow* rows = nullptr;
  const float* skip = nullptr;  // as in an UpdatePass; ratios are not written then
  float* ratios = nullptr;      // one for each parameter
  // On a CPU: sums of squares of w and r instead, of segments that may be parts of parameters.
  double* squares = nullptr;

  // The trust ratio.
  static float ratio(double w_squares, double r_squares, double trust) {
    if (w_squares == 0 || r_squares == 0) return 1;
    return static_cast<float>(std::pow(std::sqrt(w_squares / r_squares), trust));
  }
};

// Layer-wise adaptive rate scaling of one parameter (You et al., arXiv 1708.03888): with |x| the L2
// norm and G = gradient_scale * g, g = (G + decay * w) * r, where r = |w| / (eps + |G| + decay *
// |w|) if |w| > threshold, else 1.
struct LarsRule {
  LateScale gradient_scale;
  double threshold = 0, decay = 0, eps = 0;
  // r from |w| and |G|.
  double rate(double w_norm, double g_norm) const {
    return w_norm > threshold ? w_norm / (eps + g_norm + decay * w_norm) : 1;
  }
};

// Settings of dynamic loss scaling (optimizer/loss_scaler.hpp).
struct LossScaleRule {
  float growth = 2, backoff = 0.5F;
  std::int64_t interval = 2000;  // good steps in a row before the scale grows
};

}  // namespace tasuki
