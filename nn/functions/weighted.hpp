// The backward pass of functions with weights and a bias: inputs x, w, b (linear, conv2d).
#pragma once

#include "tasuki/nn/function.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {

// Calls weights(dw, accumulate) to write the gradient of w and data() for that of x, where they are
// wanted. Parameters come first: their exchange can start while the rest is computed.
template <class Weights, class Data>
void backward_of_weighted(const Tensor& dy, const Shape& w, Gradients& gradients,
                          const Weights& weights, const Data& data) {
  if (gradients.needed(2)) {
    const auto [db, accumulate] = gradients.into(2, Shape{w[0]});
    backend(dy.device()).backward_bias(dy, db, accumulate);
  }
  if (gradients.needed(1)) {
    const auto [dw, accumulate] = gradients.into(1, w);
    weights(dw, accumulate);
  }
  if (gradients.needed(0)) gradients.add(0, data());
}

}  // namespace tasuki
