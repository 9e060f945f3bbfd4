// What tensor cores do for a warp, and CUDA has no function for: NVIDIA's PTX ISA, "Warp-level
// matrix instructions", mma.m16n8k16 and ldmatrix. From compute capability 8.0 on; before that
// these do nothing. All 32 lanes call them together. "Two values" are two 16-bit ones in a word,
// the lower half first; g = lane / 4 and t = lane % 4.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace tasuki::kernels {

// sums += A B in float32, of A (16 x 16) and B (16 x 8) of T (16 bits). A lane has
//   sums[0, 1]: row g, columns 2 t and 2 t + 1; sums[2, 3]: row g + 8;
//   a[0]: row g, columns 2 t and 2 t + 1; a[1]: row g + 8; a[2, 3]: the same 8 columns later;
//   b0: rows 2 t and 2 t + 1, column g; b1: 8 rows later.
template <class T>
__device__ inline void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, __half>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  __trap();
#endif
}

// Reads four 8 x 8 matrices of 16-bit values from shared memory. Lane 8 i + r gives the address of
// row r of matrix i, 8 values at a multiple of 16 bytes. Of each matrix i a lane gets in to[i] two
// values of row g, columns 2 t and 2 t + 1.
__device__ inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
#else
  __trap();
#endif
}

// The same, but of column g, rows 2 t and 2 t + 1.
__device__ inline void load_transposed(std::uint32_t (&to)[4], const void* row) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
#else
  __trap();
#endif
}

}  // namespace tasuki::kernels
