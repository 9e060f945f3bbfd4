// Compiled for x86-64-v3: 16 registers of 8 floats.
#include "tensor/cpu/tree_product_kernels_any.hpp"

namespace tasuki {

const TreeKernels tree_kernels_avx2 = tree_kernels_of<8, 6, 2>();

}  // namespace tasuki
