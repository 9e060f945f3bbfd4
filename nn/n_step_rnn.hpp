// Recurrent layers over sequences of different length (Chainer's NStepLSTM, NStepGRU and their
// bidirectional forms).
#pragma once

#include <memory>
#include <vector>

#include "nn/functions/sequences.hpp"
#include "nn/module.hpp"

namespace tasuki {

// One direction of one layer. Parameters w0 .., b0 .. are Chainer's: see RecurrentWeights.
class RecurrentCell : public Module {
 public:
  RecurrentCell(Recurrence kind, std::int64_t in_size, std::int64_t out_size);
  functions::RecurrentResult forward(const Variable& x, const Tensor& lengths,
                                     const Variable& states, bool is_reversed);
  // The current weights of one direction, for activations of this type.
  RecurrentLayer layer(DType type) const;

 private:
  functions::RecurrentWeights weights() const;

  Recurrence kind_;
  std::vector<Parameter*> w_, b_;
};

// n_layers layers of out_size units on sequences of in_size values, each layer on the results of
// the one below, with dropout in between. Parameters "0/w0", "0/b0", ...: child i is layer i, or,
// if bidirectional, direction i % 2 (forward, backward) of layer i / 2. Matrices are drawn LeCun
// normal, biases are zeros.
class NStepRNN : public Module {
 public:
  enum class Direction : std::uint8_t { forward, both };
  NStepRNN(Recurrence kind, Direction direction, std::int64_t n_layers, std::int64_t in_size,
           std::int64_t out_size, float dropout = 0);

  struct Result {
    Variable y;  // N x T x out_size, or 2 out_size (forward, then backward); zeros for padding
    // For each child, after the last element of each example: N x S x out_size, Chainer's hy[i]
    // and, for an LSTM (S = 2), cy[i].
    std::vector<Variable> states;
  };
  // x: N x T x in_size, padded at the end; `lengths`: N int64, from 0 to T (Batch::lengths).
  // `states`: hx and cx of each child, as in a Result; empty for zeros.
  Result forward(const Variable& x, const Tensor& lengths,
                 const std::vector<Variable>& states = {});
  Result operator()(const Variable& x, const Tensor& lengths,
                    const std::vector<Variable>& states = {}) {
    return forward(x, lengths, states);
  }

 private:
  friend class RecurrentSteps;
  Direction direction_;
  float dropout_;
  std::vector<std::unique_ptr<RecurrentCell>> cells_;
};

class NStepLSTM : public NStepRNN {
 public:
  NStepLSTM(std::int64_t n_layers, std::int64_t in_size, std::int64_t out_size, float dropout = 0)
      : NStepRNN(Recurrence::lstm, Direction::forward, n_layers, in_size, out_size, dropout) {}
};

class NStepBiLSTM : public NStepRNN {
 public:
  NStepBiLSTM(std::int64_t n_layers, std::int64_t in_size, std::int64_t out_size, float dropout = 0)
      : NStepRNN(Recurrence::lstm, Direction::both, n_layers, in_size, out_size, dropout) {}
};

class NStepGRU : public NStepRNN {
 public:
  NStepGRU(std::int64_t n_layers, std::int64_t in_size, std::int64_t out_size, float dropout = 0)
      : NStepRNN(Recurrence::gru, Direction::forward, n_layers, in_size, out_size, dropout) {}
};

class NStepBiGRU : public NStepRNN {
 public:
  NStepBiGRU(std::int64_t n_layers, std::int64_t in_size, std::int64_t out_size, float dropout = 0)
      : NStepRNN(Recurrence::gru, Direction::both, n_layers, in_size, out_size, dropout) {}
};

}  // namespace tasuki
