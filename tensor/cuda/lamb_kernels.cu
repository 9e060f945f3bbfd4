// LAMB: its two passes over an arena.
#include "tensor/cuda/update_support.cuh"

namespace tasuki::kernels {
namespace {

__device__ float lamb_direction(const UpdateFactors& k, float p, float m, float v) {
  return k.of_rule[5] * m / (sqrtf(k.of_rule[6] * v) + k.of_rule[3]) + k.of_rule[4] * p;
}

// Moments, and sums of squares of the parameter and of its direction.
__global__ void lamb_moments_kernel(LambPass pass, double* sums) {
  if (pass.skip != nullptr && *pass.skip != 0) return;
  sum_squares_of_part(pass, sums, [&](const UpdateFactors& f, std::int64_t i) {
    const float w = pass.parameter[i];
    float m = pass.state[0][i], v = pass.state[1][i];
    update_moments(f, factored_gradient(f, w, pass.gradient[i]), m, v);
    pass.state[0][i] = m;
    pass.state[1][i] = v;
    return TwoNumbers{w, lamb_direction(f, w, m, v)};
  });
}

__global__ void lamb_ratios_kernel(LambPass pass, const double* sums) {
  if (pass.skip != nullptr && *pass.skip != 0) return;
  Factors factors{pass.factors, pass.table, pass.rows};
  factors.load();
  for (std::int64_t k = thread_index(); k < pass.parameters; k += thread_count()) {
    const double of_w = sum_of_parts(sums, k, 0), of_r = sum_of_parts(sums, k, 1);
    const double trust = static_cast<double>(factors.of(pass.segments[2 * k]).of_rule[7]);
    pass.ratios[k] = of_w == 0 || of_r == 0 ? 1 : static_cast<float>(pow(sqrt(of_w / of_r), trust));
  }
}

// Unlike update_kernel this reads no gradients and writes no states.
template <class Copy>
__global__ void lamb_kernel(Factors factors, const float* skip, std::int64_t packs, float* p,
                            const float* m, const float* v, const float* ratios,
                            const std::int32_t* parameter_of, Copy copy) {
  if (skip != nullptr && *skip != 0) return;
  factors.load();
  for (std::int64_t i = thread_index(); i < packs; i += thread_count()) {
    const std::int64_t element = i * Pack<float>::width;
    const UpdateFactors k = factors.of(element);
    const float rate = k.of_rule[0] * ratios[parameter_of[element / elements_per_row_number]];
    Pack<float> parameter = load_pack(p, i);
    const Pack<float> first = load_pack(m, i), second = load_pack(v, i);
    for (int j = 0; j < Pack<float>::width; ++j)
      parameter.values[j] -=
          rate * lamb_direction(k, parameter.values[j], first.values[j], second.values[j]);
    store_pack(p, i, parameter);
    copy.store(i, parameter);
  }
}

}  // namespace

void lamb(const Launch& launch, const LambPass& pass, double* scratch) {
  if (pass.parameters == 0) return;
  const dim3 grid(static_cast<unsigned>(pass.parameters), parts_of_norm);
  lamb_moments_kernel<<<grid, block_threads, 0, launch.stream>>>(pass, scratch);
  lamb_ratios_kernel<<<grid_for(launch, pass.parameters), block_threads, 0, launch.stream>>>(
      pass, scratch);
}

void lamb_step(const Launch& launch, const UpdatePass& pass) {
  const Factors factors{pass.factors, pass.table, pass.rows};
  const std::int64_t packs = pass.count / Pack<float>::width;
  with_copy(pass, [&](auto copy) {
    lamb_kernel<<<grid_for(launch, packs), block_threads, 0, launch.stream>>>(
        factors, pass.skip, packs, pass.parameter, pass.state[0], pass.state[1], pass.ratios,
        pass.parameter_of, copy);
  });
}

}  // namespace tasuki::kernels
