// The backward pass of functions with weights and a bias: inputs x, w, b (linear, conv2d,
// deconv2d).
#pragma once

#include "nn/function.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// Calls weights(dw, accumulate, db) to write the gradient of w and, if db is defined, that of b,
// which is overwritten: devices can do both at once. Calls data() for that of x. Gradients that are
// not needed are skipped. Parameters come first, so that their exchange can start while the rest is
// computed.
template <class Weights, class Data>
void backward_of_weighted(const Tensor& dy, const Shape& w, Gradients& gradients,
                          const Weights& weights, const Data& data) {
  Tensor db;
  if (gradients.needed(2)) {
    const auto [gradient, accumulate] = gradients.into(2, Shape{dy.shape()[1]});
    if (accumulate || !gradients.needed(1))
      backend(dy.device()).backward_bias(dy, gradient, accumulate);
    else
      db = gradient;
  }
  if (gradients.needed(1)) {
    const auto [dw, accumulate] = gradients.into(1, w);
    weights(dw, accumulate, db);
  }
  // Parameters were registered in the order w, b; arenas have the reverse order.
  if (gradients.needed(2)) gradients.written(2);
  if (gradients.needed(1)) gradients.written(1);
  if (gradients.needed(0)) gradients.add(0, data());
}

}  // namespace tasuki
