// Whether an algorithm of cuBLASLt's computes GELU in the end of a product
// (CUBLASLT_EPILOGUE_GELU_AUX_BIAS). cuBLASLt's documentation does not say which GELU that is, or
// what it makes of infinities and NaN, so each algorithm has to show it on the product's shape.
#pragma once

#include <cublasLt.h>

#include <string>

#include "tensor/cuda/matmul.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// Factors of zeros and biases from -6 to 6, far beyond, infinite and NaN: each row of the result is
// GELU of the biases, in MatrixProduct::gelu's form within the rounding of its type. NaN stays,
// GELU of infinity is infinity, of -infinity 0 or NaN.
class GeluTrial {
 public:
  // Of a product with a bias and `before`, whose memory is not touched. Needs the memory of another
  // one. Waits for the device, so nothing may be recorded.
  GeluTrial(CudaContext& context, const MatrixProduct& product, bool tf32);
  // What speaks against an algorithm; empty: nothing.
  std::string objection_to(const cublasLtMatmulAlgo_t& algorithm, std::size_t workspace);

 private:
  CudaContext& context_;
  bool tf32_;
  Tensor a_, b_, y_, before_;
  MatrixProduct product_;
};

}  // namespace tasuki
