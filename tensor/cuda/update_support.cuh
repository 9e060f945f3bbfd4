// Shared by the kernels of updates: factors of elements, and copies of the new parameters.
#pragma once

#include "tasuki/tensor/cuda/kernel_support.cuh"
#include "tasuki/tensor/cuda/update_kernels.hpp"

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

// start(copy), which says how the new parameters are kept once more.
template <class Start>
void with_copy(const UpdatePass& pass, const Start& start) {
  if (pass.rounded == nullptr)
    start(NotRounded{});
  else if (pass.rounded_type == DType::float16)
    start(Rounded<__half>{static_cast<__half*>(pass.rounded)});
  else
    start(Rounded<__nv_bfloat16>{static_cast<__nv_bfloat16*>(pass.rounded)});
}

inline constexpr int parts_of_norm = 64;  // of each parameter: blocks, and sums in the second step

}  // namespace tasuki::kernels
