// For loops that are compiled for several processors, as separate sources (tasuki_kernels() in
// CMakeLists.txt), because they may fuse multiplications and additions, which changes bits.
#pragma once

#include <cstdint>

namespace tasuki {

// The baseline, x86-64-v3 (AVX2 and FMA), x86-64-v4 (AVX-512).
enum class KernelLevel : std::uint8_t { baseline, avx2, avx512 };
// The highest level of this processor, within limit_instructions().
KernelLevel kernel_level();

}  // namespace tasuki
