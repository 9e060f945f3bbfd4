// Compiled for x86-64-v4: 32 registers of 16 floats.
#include "tensor/cpu/interleaved_kernels_any.hpp"

namespace tasuki {

const InterleavedKernels interleaved_kernels_avx512 = kernels_of<16, 12, 2, 5, 5>();

}  // namespace tasuki
