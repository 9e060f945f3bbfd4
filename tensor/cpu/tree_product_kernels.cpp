// The baseline's kernels (16 registers of 4 floats on x86-64), and the choice.
#include "tensor/cpu/tree_product_kernels.hpp"

#include "tensor/cpu/kernel_level.hpp"
#include "tensor/cpu/tree_product_kernels_any.hpp"

namespace tasuki {

const TreeKernels tree_kernels_baseline = tree_kernels_of<4, 5, 2>();

const TreeKernels& tree_kernels() {
#if defined(__x86_64__)
  const KernelLevel level = kernel_level();
  if (level == KernelLevel::avx512) return tree_kernels_avx512;
  if (level == KernelLevel::avx2) return tree_kernels_avx2;
#endif
  return tree_kernels_baseline;
}

}  // namespace tasuki
