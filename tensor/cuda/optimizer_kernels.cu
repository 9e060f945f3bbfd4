#include "tasuki/tensor/cuda/kernel_support.cuh"
#include "tasuki/tensor/cuda/optimizer_kernels.hpp"

namespace tasuki::kernels {
namespace {

// The rules, element by element, in the order of operations of the CPU's loops; products and sums
// may be rounded together here. p: parameter, g: gradient with scale and weight decay, s and r: the
// rule's states.
struct Constants {
  float scale, decay, rate, c0, c1, c2, c3;
};

struct Sgd {
  static constexpr int states = 0;
  __device__ static void apply(const Constants& k, float& p, float g, float&, float&) {
    p -= k.rate * g;
  }
};
struct MomentumSgd {
  static constexpr int states = 1;
  __device__ static void apply(const Constants& k, float& p, float g, float& v, float&) {
    v = k.c0 * v - k.rate * g;
    p += v;
  }
};
struct Nesterov {
  static constexpr int states = 1;
  __device__ static void apply(const Constants& k, float& p, float g, float& v, float&) {
    v = k.c0 * v - k.rate * g;
    p += k.c0 * k.c0 * v - (1 + k.c0) * k.rate * g;
  }
};
struct Adam {
  static constexpr int states = 2;
  __device__ static void apply(const Constants& k, float& p, float g, float& m, float& v) {
    m += k.c0 * (g - m);
    v += k.c1 * (g * g - v);
    p -= k.rate * (m / (sqrtf(v) + k.c2)) + k.c3 * p;
  }
};
struct RmsProp {
  static constexpr int states = 1;
  __device__ static void apply(const Constants& k, float& p, float g, float& ms, float&) {
    ms += k.c0 * (g * g - ms);
    p -= k.rate * (g / (sqrtf(ms) + k.c1));
  }
};
struct AdaGrad {
  static constexpr int states = 1;
  __device__ static void apply(const Constants& k, float& p, float g, float& h, float&) {
    h += g * g;
    p -= k.rate * (g / (sqrtf(h) + k.c0));
  }
};
struct AdaDelta {
  static constexpr int states = 2;
  __device__ static void apply(const Constants& k, float& p, float g, float& msg, float& msdx) {
    msg += k.c0 * (g * g - msg);
    const float dx = sqrtf((msdx + k.c1) / (msg + k.c1)) * g;
    msdx += k.c0 * (dx * dx - msdx);
    p -= dx;
  }
};

template <class Rule>
__device__ void step_one(const Constants& k, float& p, float gradient, float& s, float& r) {
  const float g = k.scale * gradient + k.decay * p;
  Rule::apply(k, p, g, s, r);
}

// The new parameters once more, in another type; or not.
template <class T>
struct Rounded {
  T* values;
  struct alignas(4 * sizeof(T)) Four {
    T values[4];
  };

  __device__ void store(std::int64_t pack, const Pack<float>& parameters) const {
    Four four;
    for (int j = 0; j < 4; ++j) four.values[j] = convert<T>(parameters.values[j]);
    reinterpret_cast<Four*>(values)[pack] = four;
  }
  __device__ void store_one(std::int64_t i, float parameter) const {
    values[i] = convert<T>(parameter);
  }
};
struct NotRounded {
  __device__ void store(std::int64_t, const Pack<float>&) const {}
  __device__ void store_one(std::int64_t, float) const {}
};

template <class Rule, class Copy>
__global__ void update_kernel(Constants k, const float* factors, const float* skip,
                              std::int64_t packs, std::int64_t count, float* p,
                              const float* gradient, float* s, float* r, Copy copy) {
  if (skip != nullptr && *skip != 0) return;
  if (factors != nullptr) {
    k.rate = factors[0];
    k.c0 = factors[1];
    k.c1 = factors[2];
    k.c2 = factors[3];
    k.c3 = factors[4];
  }
  for (std::int64_t i = thread_index(); i < packs; i += thread_count()) {
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
    float unused = 0;
    float& first = Rule::states > 0 ? s[i] : unused;
    float& second = Rule::states > 1 ? r[i] : unused;
    step_one<Rule>(k, p[i], gradient[i], first, second);
    copy.store_one(i, p[i]);
  }
}

template <class Rule>
void run(const Launch& launch, const UpdateStep& step) {
  const Constants constants{step.gradient_scale, step.weight_decay, step.rate,
                            step.constant[0],    step.constant[1],  step.constant[2],
                            step.constant[3]};
  const bool is_aligned =
      are_aligned(step.parameter, step.gradient, step.state[0], step.state[1], step.rounded);
  const std::int64_t packs = is_aligned ? step.count / Pack<float>::width : 0;
  const std::int64_t work = packs > 0 ? packs : step.count;
  const auto start = [&](auto copy) {
    update_kernel<Rule><<<grid_for(launch, work), block_threads, 0, launch.stream>>>(
        constants, step.device_factors, step.skip, packs, step.count, step.parameter, step.gradient,
        step.state[0], step.state[1], copy);
  };
  if (step.rounded == nullptr)
    start(NotRounded{});
  else if (step.rounded_type == DType::float16)
    start(Rounded<__half>{static_cast<__half*>(step.rounded)});
  else
    start(Rounded<__nv_bfloat16>{static_cast<__nv_bfloat16*>(step.rounded)});
}

}  // namespace

void update(const Launch& launch, const UpdateStep& step) {
  if (step.count == 0) return;
  switch (step.rule) {
    case UpdateRule::sgd:
      return run<Sgd>(launch, step);
    case UpdateRule::momentum_sgd:
      return run<MomentumSgd>(launch, step);
    case UpdateRule::nesterov:
      return run<Nesterov>(launch, step);
    case UpdateRule::adam:
    case UpdateRule::adamw:
      return run<Adam>(launch, step);
    case UpdateRule::rmsprop:
      return run<RmsProp>(launch, step);
    case UpdateRule::adagrad:
      return run<AdaGrad>(launch, step);
    case UpdateRule::adadelta:
      return run<AdaDelta>(launch, step);
  }
}

}  // namespace tasuki::kernels
