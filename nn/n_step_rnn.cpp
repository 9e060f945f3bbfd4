#include "nn/n_step_rnn.hpp"

#include <algorithm>
#include <string>

#include "nn/functions/arrays.hpp"
#include "nn/functions/normalization.hpp"

namespace tasuki {

RecurrentCell::RecurrentCell(Recurrence kind, std::int64_t in_size, std::int64_t out_size)
    : kind_(kind) {
  // Last gate first: arenas reverse the order, so matrices of one kind become neighbours in gate
  // order if each fills whole lines of 16 values.
  const std::int64_t number = 2 * gates_of(kind);
  for (std::int64_t i = number; i-- > 0;)
    b_.push_back(&add_parameter("b" + std::to_string(i), {out_size}, initializers::zero()));
  for (std::int64_t i = number; i-- > 0;)
    w_.push_back(&add_parameter("w" + std::to_string(i),
                                {out_size, i < number / 2 ? in_size : out_size},
                                initializers::lecun_normal()));
  std::ranges::reverse(b_);
  std::ranges::reverse(w_);
}

functions::RecurrentWeights RecurrentCell::weights() const {
  functions::RecurrentWeights weights;
  for (const Parameter* const w : w_) weights.w.push_back(*w);
  for (const Parameter* const b : b_) weights.b.push_back(*b);
  return weights;
}

functions::RecurrentResult RecurrentCell::forward(const Variable& x, const Tensor& lengths,
                                                  const Variable& states, bool is_reversed) {
  return functions::recurrent(kind_, x, lengths, states, weights(), is_reversed);
}

RecurrentLayer RecurrentCell::layer(DType type) const {
  return functions::stacked_layer(kind_, weights(), type);
}

NStepRNN::NStepRNN(Recurrence kind, Direction direction, std::int64_t n_layers,
                   std::int64_t in_size, std::int64_t out_size, float dropout)
    : direction_(direction), dropout_(dropout) {
  TASUKI_CHECK(n_layers >= 1, "a recurrent layer needs at least 1 layer, found {}", n_layers);
  const std::int64_t directions = direction == Direction::both ? 2 : 1;
  for (std::int64_t i = 0; i < n_layers * directions; ++i) {
    cells_.push_back(std::make_unique<RecurrentCell>(
        kind, i < directions ? in_size : directions * out_size, out_size));
    add(std::to_string(i), *cells_.back());
  }
}

NStepRNN::Result NStepRNN::forward(const Variable& x, const Tensor& lengths,
                                   const std::vector<Variable>& states) {
  TASUKI_CHECK(states.empty() || states.size() == cells_.size(),
               "a recurrent layer got {} first states, expected {} (one for each layer and "
               "direction) or none",
               states.size(), cells_.size());
  const Tensor on_device = lengths.to(x.value().device());
  Result result{x, {}};
  const auto run = [&](const Variable& input, std::size_t cell, bool is_reversed) {
    auto [y, last] = cells_[cell]->forward(input, on_device,
                                           states.empty() ? Variable() : states[cell], is_reversed);
    result.states.push_back(std::move(last));
    return y;
  };
  const std::size_t directions = direction_ == Direction::both ? 2 : 1;
  for (std::size_t cell = 0; cell < cells_.size(); cell += directions) {
    const Variable input = cell == 0 ? x : functions::dropout(result.y, dropout_);
    result.y = run(input, cell, false);
    if (directions == 2) result.y = functions::concat({result.y, run(input, cell + 1, true)}, 2);
  }
  return result;
}

}  // namespace tasuki
