// AttentionOperations: the operations of a backend for transformers: scaled dot-product attention.
// The conventions of backend.hpp hold.
//
// Attention of a head: softmax(scale * Q K^T) V, for each query over the keys that it may see.
// Scores are computed block by block and, in the backward pass, again: no array of queries x keys
// is kept, only each query's largest score and sum of exponentials (FlashAttention: Dao et al.,
// arXiv 2205.14135).
#pragma once

#include <cstdint>

#include "tensor/tensor.hpp"

namespace tasuki {

// N x T x (heads d): columns begin .. begin + heads d of the rows of a plain N x T x W array. Q, K
// and V may be parts of one array, as one product makes them.
struct HeadColumns {
  Tensor array;
  std::int64_t begin = 0;

  std::int64_t items() const { return array.shape()[0]; }
  std::int64_t rows() const { return array.shape()[1]; }
  std::int64_t width() const { return array.shape()[2]; }
};

struct AttentionOptions {
  std::int64_t heads = 1, head_width = 1;
  float scale = 1;      // of the products of queries and keys
  bool causal = false;  // query i sees the keys 0 .. i only
  // Int64, N values on the arrays' device, or undefined: item n has this many keys (and, if
  // `causal`, queries); others are padding, which no query sees. Rows of queries that see no key,
  // and their gradients, are 0. Padding must be finite: cuDNN multiplies it by 0.
  Tensor lengths = {};
};

struct AttentionResult {
  Tensor y;  // N x Tq x (heads d)
  // float32, N x heads x Tq x 2: each query's largest score m, and the sum of e^(score - m). Apart,
  // because m + log(sum) has an error of 3e-5 if m is about 1000, and so would the weights. Or, N x
  // heads x Tq, m + log(sum), where 16-bit values are computed by cuDNN, which keeps only that.
  Tensor statistics;
};

class AttentionOperations {
 public:
  virtual ~AttentionOperations() = default;

  virtual AttentionResult attention(const HeadColumns& q, const HeadColumns& k,
                                    const HeadColumns& v, const AttentionOptions& options) = 0;
  // Writes the gradients of all elements of these columns.
  virtual void attention_gradient(const HeadColumns& q, const HeadColumns& k, const HeadColumns& v,
                                  const AttentionResult& forward, const Tensor& dy,
                                  const AttentionOptions& options, const HeadColumns& dq,
                                  const HeadColumns& dk, const HeadColumns& dv) = 0;
};

// What all backends check.
inline void check_attention(const HeadColumns& q, const HeadColumns& k, const HeadColumns& v,
                            const AttentionOptions& options) {
  const std::int64_t width = options.heads * options.head_width;
  for (const HeadColumns* const each : {&q, &k, &v})
    TASUKI_CHECK(each->array.shape().rank() == 3 && each->array.is_plain() && options.heads > 0 &&
                     options.head_width > 0 && each->begin >= 0 &&
                     each->begin + width <= each->width() && each->items() == q.items() &&
                     each->array.dtype() == q.array.dtype() &&
                     each->array.device() == q.array.device(),
                 "attention: {} (N x T x W) does not have {} heads of {} columns from {} on",
                 each->array.shape().text(), options.heads, options.head_width, each->begin);
  TASUKI_CHECK(k.rows() == v.rows() && (!options.causal || q.rows() == k.rows()),
               "attention: {} queries, {} keys and {} values do not fit{}", q.rows(), k.rows(),
               v.rows(), options.causal ? " (causal: each row has one of each)" : "");
  TASUKI_CHECK(!options.lengths || (options.lengths.shape() == Shape{q.items()} &&
                                    options.lengths.dtype() == DType::int64 &&
                                    options.lengths.device() == q.array.device()),
               "attention: expected {} int64 lengths on {}, found {} of {}", q.items(),
               q.array.device().text(), options.lengths.shape().text(),
               name_of(options.lengths.dtype()));
}

}  // namespace tasuki
