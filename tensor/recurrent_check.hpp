// Checks of the arguments of recurrent(), for every backend, and the sizes that follow from them.
#pragma once

#include "tensor/sequence_operations.hpp"

namespace tasuki {

struct RecurrentSizes {
  std::int64_t items, steps, inputs, units;  // N, T, D, H
  std::int64_t gates, states;                // G, S
  Shape y() const { return {items, steps, units}; }
  Shape last_states() const { return {items, states, units}; }
};

inline RecurrentSizes check_recurrent(const RecurrentLayer& layer, const Tensor& x,
                                      const Tensor& lengths, const Tensor& states) {
  const Shape &in = x.shape(), &wh = layer.wh.shape();
  TASUKI_CHECK(in.rank() == 3 && wh.rank() == 2 && layer.wx.shape().rank() == 2,
               "recurrent layer: expected inputs of examples x steps x units and weights of two "
               "axes, found {}, {} and {}",
               in.text(), layer.wx.shape().text(), wh.text());
  const RecurrentSizes sizes{
      in[0], in[1], in[2], wh[1], gates_of(layer.kind), states_of(layer.kind)};
  const std::int64_t rows = sizes.gates * sizes.units;
  TASUKI_CHECK(layer.wx.shape() == Shape({rows, sizes.inputs}) && wh[0] == rows &&
                   layer.bx.shape() == Shape{rows} && layer.bh.shape() == Shape{rows},
               "recurrent layer: weights of {} and {} and biases of {} and {} do not fit an input "
               "of {} and {} gates",
               layer.wx.shape().text(), wh.text(), layer.bx.shape().text(), layer.bh.shape().text(),
               in.text(), sizes.gates);
  TASUKI_CHECK(lengths.shape() == Shape{sizes.items} && lengths.dtype() == DType::int64,
               "recurrent layer: expected {} lengths of int64, found {} of {}", sizes.items,
               lengths.shape().text(), name_of(lengths.dtype()));
  TASUKI_CHECK(!states || states.shape() == sizes.last_states(),
               "recurrent layer: expected states of {}x{}x{}, found {}", sizes.items, sizes.states,
               sizes.units, states.shape().text());
  return sizes;
}

inline void check_recurrent_gradients(const RecurrentSizes& sizes,
                                      const SequenceOperations::Outputs& upstream) {
  const auto check = [](const Tensor& gradient, const Shape& shape) {
    TASUKI_CHECK(!gradient || gradient.shape() == shape,
                 "recurrent layer: expected a gradient of {}, found {}", shape.text(),
                 gradient.shape().text());
  };
  check(upstream.y, sizes.y());
  check(upstream.states, sizes.last_states());
}

}  // namespace tasuki
