// The baseline's kernels (16 registers of 4 floats on x86-64), and the choice.
#include "tensor/cpu/interleaved_kernels.hpp"

#include "tensor/cpu/interleaved_kernels_any.hpp"
#include "tensor/cpu/kernel_level.hpp"

namespace tasuki {

const InterleavedKernels interleaved_kernels_baseline = kernels_of<4, 3, 1, 4, 3>();

const InterleavedKernels& interleaved_kernels() {
  return kernels_for_here(interleaved_kernels_baseline, interleaved_kernels_avx2,
                          interleaved_kernels_avx512);
}

}  // namespace tasuki
