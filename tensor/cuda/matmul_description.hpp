// cuBLASLt's description of a product.
#pragma once

#include <cublasLt.h>

#include "tasuki/tensor/cuda/matmul.hpp"

namespace tasuki {

// cuBLASLt's matrices are column-major, in which our row-major ones appear transposed: it is asked
// for c^T = op(b)^T op(a)^T, so its first operand (its "A") is b, its second is a, and the rows of
// its result, to which a bias belongs, are our columns.
struct MatmulDescription {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t first, second, result;

  // With `fuse` the product adds its bias, or sums its rows, itself.
  MatmulDescription(const MatrixProduct& product, bool tf32, bool fuse);
};

// Asks for the product; the answer is cuBLASLt's.
cublasStatus_t run_matmul(cublasLtHandle_t handle, MatmulDescription& description,
                          const MatrixProduct& product, const cublasLtMatmulAlgo_t& algorithm,
                          void* workspace, std::size_t workspace_bytes, cudaStream_t stream);

}  // namespace tasuki
