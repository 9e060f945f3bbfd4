// Scaled dot-product attention (Vaswani et al., arXiv 1706.03762), without an array of queries x
// keys in memory (Dao et al., arXiv 2205.14135).
#pragma once

#include <cstdint>

#include "nn/variable.hpp"

namespace tasuki {

struct AttentionSettings {
  std::int64_t heads = 1;
  bool causal = false;  // position i sees the positions 0 .. i only
  // Int64, N values on the inputs' device, or undefined: how many keys of each item count (and, if
  // `causal`, queries). No query sees the padding behind them; results of causal queries in the
  // padding are 0.
  Tensor lengths = {};
};

// softmax(q k^T / sqrt(d)) v for each head. q: N x Tq x (heads d); k and v: N x Tk x (heads d),
// head after head; the result: N x Tq x (heads d).
Variable attention(const Variable& q, const Variable& k, const Variable& v,
                   const AttentionSettings& settings);

// The same with queries, keys and values of one Linear, which are read where they are: qkv is N x T
// x (3 heads d), first all heads of q, then those of k and of v.
Variable self_attention(const Variable& qkv, const AttentionSettings& settings);

}  // namespace tasuki
