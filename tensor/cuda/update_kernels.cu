#include <type_traits>

#include "tensor/cuda/update_support.cuh"

namespace tasuki::kernels {
namespace {

// The rules, element by element, in the order of operations of the CPU's loops; products and sums
// may be rounded together here. p: parameter, g: gradient with scale and weight decay, s and r: the
// rule's states.
struct Sgd {
  static constexpr int states = 0;
  __device__ static void apply(const UpdateFactors& k, float& p, float g, float&, float&) {
    p -= k.of_rule[0] * g;
  }
};
struct MomentumSgd {
  static constexpr int states = 1;
  __device__ static void apply(const UpdateFactors& k, float& p, float g, float& v, float&) {
    v = k.of_rule[1] * v - k.of_rule[0] * g;
    p += v;
  }
};
struct Nesterov {
  static constexpr int states = 1;
  __device__ static void apply(const UpdateFactors& k, float& p, float g, float& v, float&) {
    const float rate = k.of_rule[0], momentum = k.of_rule[1];
    v = momentum * v - rate * g;
    p += momentum * momentum * v - (1 + momentum) * rate * g;
  }
};
struct Adam {
  static constexpr int states = 2;
  __device__ static void apply(const UpdateFactors& k, float& p, float g, float& m, float& v) {
    update_moments(k, g, m, v);
    p -= k.of_rule[0] * (m / (sqrtf(v) + k.of_rule[3])) + k.of_rule[4] * p;
  }
};
struct RmsProp {
  static constexpr int states = 1;
  __device__ static void apply(const UpdateFactors& k, float& p, float g, float& ms, float&) {
    ms += k.of_rule[1] * (g * g - ms);
    p -= k.of_rule[0] * (g / (sqrtf(ms) + k.of_rule[2]));
  }
};
struct AdaGrad {
  static constexpr int states = 1;
  __device__ static void apply(const UpdateFactors& k, float& p, float g, float& h, float&) {
    h += g * g;
    p -= k.of_rule[0] * (g / (sqrtf(h) + k.of_rule[1]));
  }
};
struct AdaDelta {
  static constexpr int states = 2;
  __device__ static void apply(const UpdateFactors& k, float& p, float g, float& msg, float& msdx) {
    const float fresh = k.of_rule[0], eps = k.of_rule[1];
    msg += fresh * (g * g - msg);
    const float dx = sqrtf((msdx + eps) / (msg + eps)) * g;
    msdx += fresh * (dx * dx - msdx);
    p -= dx;
  }
};
struct Combine {
  static constexpr int states = 0;
};

template <class Rule>
__device__ void step_one(const UpdateFactors& k, float& p, float gradient, float& s, float& r) {
  if constexpr (std::is_same_v<Rule, Combine>) {
    p = k.scale * p + k.decay * gradient;
  } else {
    const float g = factored_gradient(k, p, gradient);
    Rule::apply(k, p, g, s, r);
  }
}

template <class Rule, class Copy>
__global__ void update_kernel(Factors factors, const float* skip, std::int64_t packs,
                              std::int64_t count, float* p, const float* gradient, float* s,
                              float* r, Copy copy) {
  if (skip != nullptr && *skip != 0) return;
  factors.load();
  for (std::int64_t i = thread_index(); i < packs; i += thread_count()) {
    const UpdateFactors k = factors.of(i * Pack<float>::width);
    Pack<float> parameter = load_pack(p, i), first{}, second{};
    const Pack<float> g = load_pack(gradient, i);
    if constexpr (Rule::states > 0) first = load_pack(s, i);
    if constexpr (Rule::states > 1) second = load_pack(r, i);
    for (int j = 0; j < Pack<float>::width; ++j)
      step_one<Rule>(k, parameter.values[j], g.values[j], first.values[j], second.values[j]);
    store_pack(p, i, parameter);
    copy.store(i, parameter);
    if constexpr (Rule::states > 0) store_pack(s, i, first);
    if constexpr (Rule::states > 1) store_pack(r, i, second);
  }
  for (std::int64_t i = packs * Pack<float>::width + thread_index(); i < count;
       i += thread_count()) {
    const UpdateFactors k = factors.of(i);
    float unused = 0;
    float& first = Rule::states > 0 ? s[i] : unused;
    float& second = Rule::states > 1 ? r[i] : unused;
    step_one<Rule>(k, p[i], gradient[i], first, second);
    copy.store_one(i, p[i]);
  }
}

template <class Rule>
void run(const Launch& launch, const UpdatePass& pass) {
  const Factors factors{pass.factors, pass.table, pass.rows};
  const bool is_aligned =
      are_aligned(pass.parameter, pass.gradient, pass.state[0], pass.state[1], pass.rounded);
  const std::int64_t packs = is_aligned ? pass.count / Pack<float>::width : 0;
  const std::int64_t work = packs > 0 ? packs : pass.count;
  with_copy(pass, [&](auto copy) {
    update_kernel<Rule><<<grid_for(launch, work), block_threads, 0, launch.stream>>>(
        factors, pass.skip, packs, pass.count, pass.parameter, pass.gradient, pass.state[0],
        pass.state[1], copy);
  });
}

// --- norms ---

// Of the parameter and of its gradient.
__global__ void norm_parts_kernel(NormPass pass, double* sums) {
  sum_squares_of_part(pass, sums, [&](const UpdateFactors& f, std::int64_t i) {
    const float w = pass.parameter[i];
    return TwoNumbers{w, factored_gradient(f, w, pass.gradient[i])};
  });
}

__global__ void join_norms_kernel(const double* sums, std::int64_t numbers, double* norms) {
  for (std::int64_t i = thread_index(); i < numbers; i += thread_count())
    norms[i] = sqrt(sum_of_parts(sums, i / 2, i % 2));
}

}  // namespace

void update(const Launch& launch, const UpdatePass& pass) {
  if (pass.count == 0) return;
  switch (pass.kernel) {
    case UpdateKernel::sgd:
      return run<Sgd>(launch, pass);
    case UpdateKernel::momentum_sgd:
      return run<MomentumSgd>(launch, pass);
    case UpdateKernel::nesterov:
      return run<Nesterov>(launch, pass);
    case UpdateKernel::adam:
      return run<Adam>(launch, pass);
    case UpdateKernel::rmsprop:
      return run<RmsProp>(launch, pass);
    case UpdateKernel::adagrad:
      return run<AdaGrad>(launch, pass);
    case UpdateKernel::adadelta:
      return run<AdaDelta>(launch, pass);
    case UpdateKernel::lamb:
      return lamb_step(launch, pass);
    case UpdateKernel::combine:
      return run<Combine>(launch, pass);
  }
}

std::int64_t norm_scratch(std::int64_t parameters) {
  return 2 * parts_of_norm * parameters;
}

void norms(const Launch& launch, const NormPass& pass, double* scratch) {
  if (pass.parameters == 0) return;
  const dim3 grid(static_cast<unsigned>(pass.parameters), parts_of_norm);
  norm_parts_kernel<<<grid, block_threads, 0, launch.stream>>>(pass, scratch);
  const std::int64_t numbers = 2 * pass.parameters;
  join_norms_kernel<<<grid_for(launch, numbers), block_threads, 0, launch.stream>>>(
      scratch, numbers, pass.norms);
}

}  // namespace tasuki::kernels
