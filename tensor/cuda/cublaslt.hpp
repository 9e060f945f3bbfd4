// How cuBLASLt sees a product (MatrixProduct), and which of its algorithms computes it.
#pragma once

#include <cublasLt.h>

#include <vector>

#include "tensor/cuda/matmul.hpp"

namespace tasuki {

// cuBLASLt's matrices are column-major, so our row-major ones appear transposed: it computes c^T =
// op(b)^T op(a)^T. Its first operand (its "A") is b, its second is a, and the rows of its result,
// to which a bias belongs, are our columns.
struct MatmulDescription {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t first, second, result;

  // With `fuse` cuBLASLt does what follows the sum: adds the bias (and applies ReLU or GELU), or
  // writes the row sums. Without it only ReLU of a product that has no bias.
  MatmulDescription(const MatrixProduct& product, bool tf32, bool fuse);
};

// Starts the product; returns cuBLASLt's status.
cublasStatus_t run_matmul(cublasLtHandle_t handle, MatmulDescription& description,
                          const MatrixProduct& product, const cublasLtMatmulAlgo_t& algorithm,
                          void* workspace, std::size_t workspace_bytes, cudaStream_t stream);

// The algorithms for a product, best first: in the order of cuBLASLt's heuristic, or, with
// key.is_timed, the fastest first, timed on the product's operands (its results are not touched).
// Algorithms that add the bias or sum the rows come before the others. NoAlgorithmLeft if there is
// none. Of a product with GELU: those that have shown that they compute it (gelu_trial.hpp) and,
// with key.is_timed, are no slower than two passes; then, without an algorithm, the two passes.
// Nothing may be recorded then.
std::vector<MatmulAlgorithms::Choice> choose_matmul(CudaContext& context,
                                                    const MatrixProduct& product,
                                                    const MatmulKey& key);

}  // namespace tasuki
