#include "nn/linear.hpp"

#include "nn/functions/linear.hpp"

namespace tasuki {

Linear::Linear(std::optional<std::int64_t> n_in, std::int64_t n_out, bool bias, Initializer weights,
               bool relu)
    : w_(n_in ? add_parameter("W", {n_out, *n_in}, std::move(weights))
              : add_unshaped_parameter("W", {n_out, 0}, std::move(weights))),
      b_(bias ? &add_parameter("b", {n_out}, initializers::zero()) : nullptr),
      relu_(relu) {}

Variable Linear::forward(const Variable& x) {
  if (!w_.has_shape()) w_.set_shape({w_.shape()[0], x.shape().count_per_item()});
  return linear(x, w_, b_ != nullptr ? *b_ : Variable(), relu_);
}

}  // namespace tasuki
