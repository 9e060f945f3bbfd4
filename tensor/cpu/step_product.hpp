// Products of few rows with the same weights, one in each step of a sequence: oneDNN's inner
// product on weights that are brought into its order once for all steps, which takes half the time
// of sgemm's with plain weights.
#pragma once

#include <map>

#include "tensor/cpu/dnnl_support.hpp"

namespace tasuki {

class StepProduct {
 public:
  enum class Direction : std::uint8_t { forward, backward };
  // w is outputs x inputs, plain, of float32 or bfloat16; forward: y = x w^T + b, backward: y = x
  // w. At most `most` rows.
  StepProduct(const Tensor& w, Direction direction, std::int64_t most);

  // Rows that a product of `rows` reads and writes: there are few different numbers, because each
  // takes a primitive of its own.
  std::int64_t padded(std::int64_t rows) const;
  // The first `rows` rows of x, which has w's type. x and y have padded(rows) rows in memory; what
  // stands in the added ones of x does not matter.
  void run(std::int64_t rows, const Tensor& x, float* y, const float* b = nullptr);

 private:
  struct Step {
    OperationPointer operation;
    Tensor weights;
  };
  Step make(std::int64_t rows, bool has_bias) const;
  std::string text(std::int64_t rows) const;

  DType type_;  // of x
  Tensor w_;  // backward: w transposed, a view; oneDNN's own backward pass takes 1.2 times as long
  std::int64_t most_;
  std::map<std::int64_t, Step> steps_;  // by number of rows
};

}  // namespace tasuki
