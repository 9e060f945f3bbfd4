// Products of matrices of 16 bits, with sums in float32.
//
// Of bfloat16 by tiles where the processor has AMX (tile_product.hpp); with AVX512_BF16 alone by
// oneDNN's matmul on plain and transposed arrays. Of float16, and where the processor has no such
// instructions, by sgemm on copies in float32.
#pragma once

#include <cstdint>

#include "tensor/tensor.hpp"

namespace tasuki {

// A row-major matrix, or several of one size; `transposed`: the transpose of each, in place.
struct RoundedMatrix {
  Tensor values;  // 16 bits, plain; the last two of two or three axes are a matrix's
  bool transposed = false;

  int rank() const { return values.shape().rank(); }
  std::int64_t count() const { return rank() == 3 ? values.shape()[0] : 1; }
  std::int64_t rows() const { return values.shape()[rank() - (transposed ? 1 : 2)]; }
  std::int64_t columns() const { return values.shape()[rank() - (transposed ? 2 : 1)]; }
};

struct RoundedProductOptions {
  Tensor bias = {};         // float32, of single matrices: added to each row before rounding
  bool relu = false;        // then clips at 0
  bool accumulate = false;  // adds to c
};

// c = a b, each matrix of a with that of b; c is plain and of float32 or the type of a and b. Sizes
// are positive. If has_bfloat16_products(), the order of a sum of bfloat16 depends on the number of
// its terms and the result's type alone, not on other rows or on threads. Otherwise it is sgemm's.
void multiply_rounded(const RoundedMatrix& a, const RoundedMatrix& b, const Tensor& c,
                      const RoundedProductOptions& options = {});

// A block of a matrix of bfloat16 in memory: rows `step` elements apart; `transposed`: it stands
// for its transpose.
struct RoundedBlock {
  const std::uint16_t* values;
  std::int64_t step;
  bool transposed = false;
};

// c = scale a b, or c += a b if it accumulates: c m x n of float32, rows c_step apart; a m x k, b
// k x n. Only where has_bfloat16_products().
void multiply_rounded_block(std::int64_t m, std::int64_t n, std::int64_t k, const RoundedBlock& a,
                            const RoundedBlock& b, float* c, std::int64_t c_step, float scale,
                            bool accumulate);

// Whether this processor has instructions for such products that are faster than float32's: AMX, or
// AVX512_BF16 on processors that are not Intel's.
bool has_bfloat16_products();
// Whether oneDNN computes with activations of this type here.
inline bool is_native(DType type) {
  return type == DType::float32 || (type == DType::bfloat16 && has_bfloat16_products());
}

}  // namespace tasuki
