// SequenceOperations: the operations of a backend on sequences: embeddings, recurrent layers. The
// conventions of backend.hpp hold.
#pragma once

#include <cstdint>
#include <optional>

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

class SequenceOperations {
 public:
  virtual ~SequenceOperations() = default;

  // Rows of w (n x d, float32 or an activation's type, which is that of the result) by number: ids
  // (int32 or int64) of any shape with up to 5 axes, to the same shape x d. Rows of `ignore` are
  // zeros. Any other id outside of 0 .. n - 1 is an error of kind data on CPUs; on GPUs, which the
  // host does not wait for, it makes a row of NaN.
  virtual Tensor embed(const Tensor& w, const Tensor& ids, std::optional<std::int64_t> ignore) = 0;
  // dw (n x d, float32): for each row the sum of the rows of dy with its id, added in the order in
  // which they stand there, whatever the number of threads.
  virtual void embed_backward(const Tensor& ids, const Tensor& dy,
                              std::optional<std::int64_t> ignore, const Tensor& dw,
                              bool accumulate) = 0;
};

}  // namespace tasuki
