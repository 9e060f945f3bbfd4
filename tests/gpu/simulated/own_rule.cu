#include <cuda_runtime_api.h>

#include "own_rule.hpp"

namespace tasuki::testing {
namespace {

__global__ void own_momentum(std::int64_t count, float* p, const float* gradient, float* v,
                             const UpdateFactors* factors, const FactorRow* rows,
                             const float* skip) {
  if (skip != nullptr && *skip != 0) return;
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += threads) {
    const UpdateFactors k = factors[rows != nullptr ? rows[i / elements_per_row_number] : 0];
    const float g = k.scale * gradient[i] + k.decay * p[i];
    v[i] = k.of_rule[1] * v[i] - k.of_rule[0] * g;
    p[i] += v[i];
  }
}

}  // namespace

void launch_own_momentum(const RuleArena& arena) {
  own_momentum<<<4, 64, 0, static_cast<cudaStream_t>(arena.stream)>>>(
      arena.count, arena.parameters, arena.gradients, arena.states[0], arena.factors, arena.rows,
      arena.skip);
}

}  // namespace tasuki::testing
