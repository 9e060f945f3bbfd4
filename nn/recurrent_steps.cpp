#include "nn/recurrent_steps.hpp"

#include "tensor/backend.hpp"

namespace tasuki {

RecurrentSteps::RecurrentSteps(const NStepRNN& network, const std::vector<Variable>& states) {
  TASUKI_CHECK(network.direction_ == NStepRNN::Direction::forward,
               "a network of two directions needs whole sequences, not steps");
  TASUKI_CHECK(states.size() == network.cells_.size(), "expected states of {} layers, found {}",
               network.cells_.size(), states.size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Tensor& first = states_.emplace_back(states[i].value());
    RecurrentLayer& layer = layers_.emplace_back(network.cells_[i]->layer(first.dtype()));
    layer.wx = layer.wx.to(first.dtype());
    layer.wh = layer.wh.to(first.dtype());
    layer.prepared = backend(first.device()).sequences().prepare_recurrent(layer, first.shape()[0]);
  }
}

Tensor RecurrentSteps::next(const Tensor& x) {
  const std::int64_t items = x.shape()[0];
  const Tensor ones = Tensor::full({items}, 1, DType::int64, x.device());
  Tensor y = states_.empty() ? x : x.to(states_[0].dtype());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    auto outputs = backend(x.device())
                       .sequences()
                       .recurrent(layers_[i], y.plain().reshape({items, 1, y.shape()[1]}), ones,
                                  states_[i], nullptr);
    y = outputs.y.reshape({items, outputs.y.shape()[2]});
    states_[i] = std::move(outputs.states);
  }
  return y;
}

void RecurrentSteps::keep(std::span<const std::int64_t> rows) {
  const Tensor numbers = Tensor::from(rows, {std::ssize(rows)});
  for (Tensor& states : states_)
    states = backend(states.device()).gather(states.plain(), numbers, states.dtype());
}

}  // namespace tasuki
