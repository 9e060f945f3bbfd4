// Compiled for x86-64-v4: 32 registers of 16 floats.
#include "tensor/cpu/tree_product_kernels_any.hpp"

namespace tasuki {

const TreeKernels tree_kernels_avx512 = tree_kernels_of<16, 6, 4>();

}  // namespace tasuki
