// The baseline's kernels (16 registers of 4 floats on x86-64), and the choice.
#include "tensor/cpu/tree_product_kernels.hpp"

#include "tensor/cpu/kernel_level.hpp"
#include "tensor/cpu/tree_product_kernels_any.hpp"

namespace tasuki {

const TreeKernels tree_kernels_baseline = tree_kernels_of<4, 5, 2>();

const TreeKernels& tree_kernels() {
  return kernels_for_here(tree_kernels_baseline, tree_kernels_avx2, tree_kernels_avx512);
}

}  // namespace tasuki
