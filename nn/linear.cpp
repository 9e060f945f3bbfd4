#include "tasuki/nn/linear.hpp"

#include "tasuki/nn/functions/linear.hpp"

namespace tasuki {

Linear::Linear(std::int64_t n_in, std::int64_t n_out, bool bias, Initializer weights)
    : w_(add_parameter("W", {n_out, n_in}, std::move(weights))),
      b_(bias ? &add_parameter("b", {n_out}, initializers::zero()) : nullptr) {}

Variable Linear::forward(const Variable& x) {
  return linear(x, w_, b_ != nullptr ? *b_ : Variable());
}

}  // namespace tasuki
