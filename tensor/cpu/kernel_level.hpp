// For loops that are compiled for several processors, as separate sources (tasuki_kernels() in
// CMakeLists.txt), because they may fuse multiplications and additions, which changes bits.
#pragma once

#include <cstdint>

namespace tasuki {

// The baseline, x86-64-v3 (AVX2 and FMA), x86-64-v4 (AVX-512).
enum class KernelLevel : std::uint8_t { baseline, avx2, avx512 };
// The highest level of this processor, within limit_instructions().
KernelLevel kernel_level();
// What was compiled for that level.
template <class Kernels>
const Kernels& kernels_for_here(const Kernels& baseline, const Kernels& avx2,
                                const Kernels& avx512) {
  switch (kernel_level()) {
    case KernelLevel::avx512:
      return avx512;
    case KernelLevel::avx2:
      return avx2;
    case KernelLevel::baseline:
      break;
  }
  return baseline;
}

}  // namespace tasuki
