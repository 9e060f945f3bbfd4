// Compiled for x86-64-v3: 16 registers of 8 floats.
#include "tensor/cpu/interleaved_kernels_any.hpp"

namespace tasuki {

const InterleavedKernels interleaved_kernels_avx2 = kernels_of<8, 6, 1, 4, 3>();

}  // namespace tasuki
