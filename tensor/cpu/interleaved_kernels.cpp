// The baseline's kernels (16 registers of 4 floats on x86-64), and the choice.
#include "tensor/cpu/interleaved_kernels.hpp"

#include "tensor/cpu/interleaved_kernels_any.hpp"
#include "tensor/cpu/kernel_level.hpp"

namespace tasuki {

const InterleavedKernels interleaved_kernels_baseline = kernels_of<4, 3, 1, 4, 3>();

const InterleavedKernels& interleaved_kernels() {
#if defined(__x86_64__)
  const KernelLevel level = kernel_level();
  if (level == KernelLevel::avx512) return interleaved_kernels_avx512;
  if (level == KernelLevel::avx2) return interleaved_kernels_avx2;
#endif
  return interleaved_kernels_baseline;
}

}  // namespace tasuki
