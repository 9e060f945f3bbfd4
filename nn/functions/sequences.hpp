// Functions of sequences: attention, and one direction of one layer of an LSTM or GRU.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/variable.hpp"
#include "tensor/sequence_operations.hpp"

namespace tasuki::functions {

struct AttentionSettings {
  std::int64_t heads = 1;
  bool causal = false;  // position i sees only positions 0 .. i
  // Int64, N values on the inputs' device, or undefined: the number of keys (and, if `causal`,
  // queries) of each item that count. No query sees the padding after them, which must be finite;
  // results of causal queries in the padding are 0.
  Tensor lengths = {};
};

// Scaled dot-product attention (Vaswani et al., arXiv 1706.03762), softmax(q k^T / sqrt(d)) v for
// each head, without an array of queries x keys in memory (Dao et al., arXiv 2205.14135). q: N x Tq
// x (heads d); k and v: N x Tk x (heads d), head after head; the result: N x Tq x (heads d).
Variable attention(const Variable& q, const Variable& k, const Variable& v,
                   const AttentionSettings& settings);

// attention() with queries, keys and values from one Linear, read in place: qkv is N x T x (3 heads
// d), first all heads of q, then of k, then of v.
Variable self_attention(const Variable& qkv, const AttentionSettings& settings);

// Chainer's matrices w0, w1, ... and biases b0, b1, ...: first those for x (matrices of H x D), one
// per gate in the order i, f, a, o (LSTM; Chainer's documentation has o before a, but its code and
// cuDNN do not) or r, z, n (GRU); then as many for h (matrices of H x H). If matrices of one kind
// are neighbours in memory, as NStepLSTM registers them for an optimizer's arena, no copies are
// made.
struct RecurrentWeights {
  std::vector<Variable> w, b;
};

// The weights in a backend's form. `type`: the inputs' type.
RecurrentLayer stacked_layer(Recurrence kind, const RecurrentWeights& weights, DType type,
                             bool is_reversed = false);

struct RecurrentResult {
  Variable y;       // N x T x H: h after each element, zeros for padding
  Variable states;  // N x S x H: h, and c of an LSTM, after the last element
};

// x: N x T x D, padded; `lengths`: N int64 on x's device, from 0 to T. `states`: initial states,
// shaped like the result's; undefined for zeros. `is_reversed`: from the last element to the first.
RecurrentResult recurrent(Recurrence kind, const Variable& x, const Tensor& lengths,
                          const Variable& states, const RecurrentWeights& weights,
                          bool is_reversed = false);

}  // namespace tasuki::functions
