// In place of the product's header of this name: the same functions by exchanges between the lanes
// of a warp.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/cuda/kernel_support.cuh"
#include "tests/support/simulated_cuda/defect.hpp"
#include "tests/support/simulated_cuda/kernel.hpp"

namespace tasuki::kernels {

// The float32 value of one of two 16-bit ones.
template <class T>
float value_of(std::uint32_t both, unsigned which) {
  T values[2];
  std::memcpy(static_cast<void*>(values), &both, sizeof(both));
  return convert<float>(values[which]);
}

template <class T>
void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                  std::uint32_t b1) {
  struct Operands {
    std::uint32_t a[4], b[2];
  };
  const Operands own = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const void* const* const all = simulated::exchange_in_warp(&own, sizeof(own));
  const auto of_lane = [&](unsigned lane) { return static_cast<const Operands*>(all[lane]); };
  const unsigned lane = simulated::lane();
  for (unsigned e = 0; e < 4; ++e) {
    const unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    float sum = 0;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned in_row = row % 8 * 4 + k % 8 / 2, in_column = column * 4 + k % 8 / 2;
      sum += value_of<T>(of_lane(in_row)->a[row / 8 + k / 8 * 2], k % 2) *
             value_of<T>(of_lane(in_column)->b[k / 8], k % 2);
    }
    sums[e] += sum;
  }
}

// The rows that all lanes of a warp give, as addresses of pointers.
inline const void* const* rows_of_warp(const void* const& row) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    simulated::defect("a row of ldmatrix is not at a multiple of 16 bytes");
  return simulated::exchange_in_warp(&row, sizeof(row));
}

inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
  const void* const* const all = rows_of_warp(row);
  const unsigned lane = simulated::lane();
  for (unsigned i = 0; i < 4; ++i) {
    const void* from = nullptr;
    std::memcpy(&from, all[8 * i + lane / 4], sizeof(from));
    std::memcpy(&to[i], static_cast<const std::uint32_t*>(from) + lane % 4, sizeof(to[i]));
  }
}

inline void load_transposed(std::uint32_t (&to)[4], const void* row) {
  const void* const* const all = rows_of_warp(row);
  const unsigned lane = simulated::lane();
  for (unsigned i = 0; i < 4; ++i) {
    std::uint16_t both[2];
    for (unsigned half = 0; half < 2; ++half) {
      const void* from = nullptr;
      std::memcpy(&from, all[8 * i + lane % 4 * 2 + half], sizeof(from));
      both[half] = static_cast<const std::uint16_t*>(from)[lane / 4];
    }
    std::memcpy(&to[i], both, sizeof(both));
  }
}

}  // namespace tasuki::kernels
