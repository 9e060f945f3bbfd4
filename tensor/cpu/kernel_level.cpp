#include "tensor/cpu/kernel_level.hpp"

#include "tensor/cpu/dnnl_interface.hpp"

namespace tasuki {

KernelLevel kernel_level() {
#if defined(__x86_64__)
  // oneDNN's sets, too, as they may be limited.
  static const bool avx512 =
      has_instructions(dnnl::cpu_isa::avx512_core) && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd");
  static const bool avx2 = has_instructions(dnnl::cpu_isa::avx2) &&
                           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (avx512 && avx2) return KernelLevel::avx512;
  if (avx2) return KernelLevel::avx2;
#endif
  return KernelLevel::baseline;
}

}  // namespace tasuki
