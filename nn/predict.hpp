// predict: what a model computes for a batch, outside training steps.
#pragma once

#include <concepts>

#include "nn/layer.hpp"
#include "nn/variable.hpp"

namespace tasuki {

// Runs a forward pass as evaluation does, with the present weights: no graph is recorded, dropout
// is off, and batch normalisation uses its running statistics, which stay as they are. Returns the
// result in plain order, on the model's device. May be called between any two training steps of the
// same thread, as often as needed; no other rank takes part (unless the model's own layers exchange
// messages). With ExchangeMode::double_buffered call Optimizer::flush() first.
//   const Tensor y = predict(model, tensor_over(u, {1, 64}));
//   const Tensor z = predict([&] { return model(Variable(left), Variable(right)); });
template <std::invocable Forward>
Tensor predict(const Forward& forward) {
  const NoGrad no_graph;
  const TrainingMode evaluation(false);
  return forward().value().plain();
}

// The model's output for `x`, which is on the model's device.
inline Tensor predict(Layer& model, const Tensor& x) {
  return predict([&] { return model(Variable(x)); });
}

}  // namespace tasuki
