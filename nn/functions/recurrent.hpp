// One direction of one layer of an LSTM or GRU over sequences of different length.
#pragma once

#include <vector>

#include "nn/variable.hpp"
#include "tensor/sequence_operations.hpp"

namespace tasuki {

// Chainer's matrices and vectors, by their numbers: w0 .. of x (H x D), for each gate in the order
// i, f, a, o (LSTM; Chainer's documentation has o before a, its code and cuDNN do not) or r, z, n
// (GRU), then as many of h (H x H); and the biases b0 .. of x and of h. If those of one kind are
// neighbours in memory, as NStepLSTM registers them for an optimizer's arena, no copies are made.
struct RecurrentWeights {
  std::vector<Variable> w, b;
};

// The weights as a backend takes them. `type`: that of the inputs.
RecurrentLayer stacked_layer(Recurrence kind, const RecurrentWeights& weights, DType type,
                             bool is_reversed = false);

struct RecurrentResult {
  Variable y;       // N x T x H: h after each element, zeros for padding
  Variable states;  // N x S x H: h, and c of an LSTM, after the last element
};

// x: N x T x D, padded; `lengths`: N int64 on x's device, from 0 to T. `states`: what it begins
// with, like the result's; undefined for zeros. `is_reversed`: from the last element to the first.
RecurrentResult recurrent(Recurrence kind, const Variable& x, const Tensor& lengths,
                          const Variable& states, const RecurrentWeights& weights,
                          bool is_reversed = false);

}  // namespace tasuki
