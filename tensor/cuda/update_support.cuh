// Shared by the kernels of updates: factors and gradients of elements, copies of the new
// parameters, and sums over parameters.
#pragma once

#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/update_kernels.hpp"

namespace tasuki::kernels {

// Of each element: its row of a table, or the same for all.
struct Factors {
  UpdateFactors of_all;
  const UpdateFactors* table;
  const FactorRow* rows;

  // Before the loop over elements.
  __device__ void load() {
    if (table != nullptr && rows == nullptr) of_all = *table;
  }
  __device__ UpdateFactors of(std::int64_t element) const {
    if (rows == nullptr) return of_all;
    return table[rows[element / elements_per_row_number]];
  }
};

// The gradient that rules see.
__device__ inline float factored_gradient(const UpdateFactors& k, float p, float gradient) {
  return k.scale * gradient + k.decay * p;
}

// Of Adam and of LAMB.
__device__ inline void update_moments(const UpdateFactors& k, float g, float& m, float& v) {
  m += k.of_rule[1] * (g - m);
  v += k.of_rule[2] * (g * g - v);
}

// Where a second, rounded copy of the new parameters is written; NotRounded writes none.
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

// Calls start(copy) with the Rounded or NotRounded that the pass asks for.
template <class Start>
void with_copy(const UpdatePass& pass, const Start& start) {
  if (pass.rounded == nullptr)
    start(NotRounded{});
  else if (pass.rounded_type == DType::float16)
    start(Rounded<__half>{static_cast<__half*>(pass.rounded)});
  else
    start(Rounded<__nv_bfloat16>{static_cast<__nv_bfloat16*>(pass.rounded)});
}

// Sums of squares over each parameter, in two steps: `parts_of_norm` blocks for each, and the sum
// of what they found.
inline constexpr int parts_of_norm = 64;

struct TwoNumbers {
  float first, second;
};

// The work of block (k, part): the squares of the two numbers that numbers(factors, i) returns for
// each element i of its part of parameter k. The square of a float is exact in double.
template <class Pass, class Numbers>
__device__ void sum_squares_of_part(const Pass& pass, double* sums, const Numbers& numbers) {
  const std::int64_t k = blockIdx.x;
  const std::int64_t begin = pass.segments[2 * k], end = begin + pass.segments[2 * k + 1];
  Factors factors{pass.factors, pass.table, pass.rows};
  factors.load();
  const UpdateFactors f = factors.of(begin);
  double first = 0, second = 0;
  for (std::int64_t i = begin + std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < end;
       i += std::int64_t{gridDim.y} * blockDim.x) {
    const TwoNumbers found = numbers(f, i);
    first += static_cast<double>(found.first) * static_cast<double>(found.first);
    second += static_cast<double>(found.second) * static_cast<double>(found.second);
  }
  __shared__ double shared[32];
  first = block_sum(first, shared);
  second = block_sum(second, shared);
  if (threadIdx.x != 0) return;
  double* const to = sums + 2 * (k * gridDim.y + blockIdx.y);
  to[0] = first;
  to[1] = second;
}

// Sum 0 or 1 over parameter k.
__device__ inline double sum_of_parts(const double* sums, std::int64_t k, std::int64_t which) {
  double sum = 0;
  for (int part = 0; part < parts_of_norm; ++part)
    sum += sums[2 * (k * parts_of_norm + part) + which];
  return sum;
}

}  // namespace tasuki::kernels
