// The baseline's kernels (16 registers of 4 floats on x86-64), and the choice.
#include "tensor/cpu/interleaved_kernels.hpp"

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/interleaved_kernels_any.hpp"

namespace tasuki {

const InterleavedKernels interleaved_kernels_baseline = kernels_of<4, 3, 1, 4, 3>();

const InterleavedKernels& interleaved_kernels() {
#if defined(__x86_64__)
  // oneDNN's sets, too, as they may be limited (limit_instructions()).
  static const bool avx512 =
      has_instructions(dnnl::cpu_isa::avx512_core) && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd");
  static const bool avx2 = has_instructions(dnnl::cpu_isa::avx2) &&
                           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (avx512 && avx2) return interleaved_kernels_avx512;
  if (avx2) return interleaved_kernels_avx2;
#endif
  return interleaved_kernels_baseline;
}

}  // namespace tasuki
