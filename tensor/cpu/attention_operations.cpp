// Attention on CPUs: each head of each item by one thread, in blocks of queries x keys whose scores
// stay in the processor's cache. Products of a block are in bfloat16 where rounded_product.hpp has
// them for its shape, of the columns where they lie, with weights and slopes of scores rounded for
// them; otherwise they are oneDNN's in float32, to which a head's columns of 16 bits are converted
// when its work begins. Sums are float32.
#include "tensor/attention_operations.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "tensor/cpu/attention_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/cpu/tile_product.hpp"
#include "tensor/half.hpp"

namespace tasuki {
namespace {

// Two blocks of scores are 128 KiB. Of causal attention, what a block of queries does not see of
// the keys is not computed.
constexpr std::int64_t query_block = 64, key_block = 256;
constexpr float no_score = std::numeric_limits<float>::lowest();

// Rows, `step` apart, of floats or of bfloat16.
template <class T>
struct Rows {
  T* values;
  std::int64_t step;
  Rows from(std::int64_t row) const { return {values + row * step, step}; }
};
using Floats = Rows<float>;

// One head of one item.
template <class T>
struct Head {
  Rows<T> q, k, v;
  std::int64_t queries, keys;  // without padding
  std::int64_t width;
  float scale;
  bool causal;
  // The keys from `key` on that query i sees, of a block of `columns`.
  std::int64_t seen(std::int64_t i, std::int64_t key, std::int64_t columns) const {
    return causal ? std::clamp<std::int64_t>(i + 1 - key, 0, columns) : columns;
  }
  // Keys that a block of queries which ends before `end` may see.
  std::int64_t visible(std::int64_t end) const { return causal ? std::min(end, keys) : keys; }
};

// c (m x n) = alpha op(a) op(b) + beta c, where beta is 0 or 1, and alpha is 1 if it is 1.
void multiply(char ta, char tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
              Floats a, Floats b, float beta, Floats c) {
  check_dnnl(dnnl_sgemm(ta, tb, m, n, k, alpha, a.values, a.step, b.values, b.step, beta, c.values,
                        c.step),
             [] { return "the matrix products of attention"; });
}
void multiply(char ta, char tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
              Rows<std::uint16_t> a, Rows<std::uint16_t> b, float beta, Floats c) {
  multiply_rounded_block(m, n, k, {a.values, a.step, ta == 'T'}, {b.values, b.step, tb == 'T'},
                         c.values, c.step, alpha, beta != 0);
}

// The memory of each thread for blocks of scores.
struct Scratch {
  std::vector<float> scores = std::vector<float>(query_block * key_block);
  std::vector<float> slopes = std::vector<float>(query_block * key_block);
  std::vector<std::uint16_t> rounded = std::vector<std::uint16_t>(query_block * key_block);

  static Scratch& of_thread() {
    thread_local Scratch scratch;
    return scratch;
  }
};

// A block of scores (rows without gaps) as an operand of products with Rows<T>: as it is, or
// rounded into `rounded`, which it overwrites.
template <class T>
Rows<T> operand(const Floats& block, std::int64_t rows, std::vector<std::uint16_t>& rounded) {
  if constexpr (std::is_same_v<T, float>) {
    return block;
  } else {
    half_format(DType::bfloat16).narrow(rounded.data(), block.values, rows * block.step);
    return {rounded.data(), block.step};
  }
}

template <class T>
void forward_head(const Head<T>& head, Floats y, QueryStatistics* statistics) {
  Scratch& scratch = Scratch::of_thread();
  for (std::int64_t i = 0; i < head.queries; i += query_block) {
    const std::int64_t m = std::min(query_block, head.queries - i);
    const Floats out = y.from(i);
    std::fill_n(statistics + i, m, QueryStatistics{no_score, 0});
    const std::int64_t keys = head.visible(i + m);
    for (std::int64_t j = 0; j < keys; j += key_block) {
      const std::int64_t n = std::min(key_block, keys - j);
      const Floats scores = {scratch.scores.data(), n};
      multiply('N', 'T', m, n, head.width, head.scale, head.q.from(i), head.k.from(j), 0, scores);
      for (std::int64_t r = 0; r < m; ++r) {
        const float factor =
            attention_row(scores.from(r).values, head.seen(i + r, j, n), n, statistics + i + r);
        if (j > 0) scale_floats(out.from(r).values, head.width, factor);
      }
      multiply('N', 'N', m, head.width, n, 1, operand<T>(scores, m, scratch.rounded),
               head.v.from(j), j > 0 ? 1.0f : 0.0f, out);
    }
    for (std::int64_t r = 0; r < m; ++r)
      scale_floats(out.from(r).values, head.width, 1 / statistics[i + r].sum);
  }
}

// Adds to dk and dv. `dy`: as floats, and as an operand.
template <class T>
void backward_head(const Head<T>& head, Floats y, Floats dy, Rows<T> dy_operand,
                   const QueryStatistics* statistics, Floats dq, Floats dk, Floats dv) {
  Scratch& scratch = Scratch::of_thread();
  float deltas[query_block];
  for (std::int64_t i = 0; i < head.queries; i += query_block) {
    const std::int64_t m = std::min(query_block, head.queries - i);
    for (std::int64_t r = 0; r < m; ++r)
      deltas[r] = dot_product(y.from(i + r).values, dy.from(i + r).values, head.width);
    const std::int64_t keys = head.visible(i + m);
    for (std::int64_t j = 0; j < keys; j += key_block) {
      const std::int64_t n = std::min(key_block, keys - j);
      const Floats weights = {scratch.scores.data(), n}, slopes = {scratch.slopes.data(), n};
      const Rows<T> q = head.q.from(i), k = head.k.from(j), d = dy_operand.from(i);
      multiply('N', 'T', m, n, head.width, head.scale, q, k, 0, weights);
      multiply('N', 'T', m, n, head.width, 1, d, head.v.from(j), 0, slopes);
      for (std::int64_t r = 0; r < m; ++r) {
        attention_weights(weights.from(r).values, head.seen(i + r, j, n), n, statistics[i + r]);
        attention_slopes(weights.from(r).values, slopes.from(r).values, n, deltas[r], head.scale);
      }
      multiply('T', 'N', n, head.width, m, 1, operand<T>(weights, m, scratch.rounded), d, 1,
               dv.from(j));
      const Rows<T> of_scores = operand<T>(slopes, m, scratch.rounded);
      multiply('T', 'N', n, head.width, m, 1, of_scores, q, 1, dk.from(j));
      multiply('N', 'N', m, head.width, n, 1, of_scores, k, j > 0 ? 1.0f : 0.0f, dq.from(i));
    }
  }
}

// The rows of one head: where they lie, or as floats, which are a copy if they have 16 bits.
class HeadRows {
 public:
  HeadRows(const HeadColumns& columns, std::int64_t item, std::int64_t head,
           const AttentionOptions& options)
      : memory_(columns.array.raw()),
        elements_(columns.array),
        count_(columns.rows()),
        width_(options.head_width),
        begin_(item * count_ * columns.width() + columns.begin + head * width_),
        step_(columns.width()) {}

  // Operands of products, with their values.
  template <class T>
  Rows<T> operands() {
    if constexpr (std::is_same_v<T, float>)
      return read();
    else
      return {static_cast<T*>(memory_) + begin_, step_};
  }
  Floats read() {
    if (!copy_.empty()) return place();  // by an earlier call
    const Floats rows = place();
    for (std::int64_t i = 0; i < converted(); ++i)
      elements_.read(begin_ + i * step_, width_, copy_.data() + i * width_);
    return rows;
  }
  // Rows to be filled, and then written.
  Floats place() {
    copy_.resize(static_cast<std::size_t>(converted() * width_));
    return elements_.is_float32() ? Floats{elements_.place(begin_, nullptr), step_}
                                  : Floats{copy_.data(), width_};
  }
  void write() const {
    for (std::int64_t i = 0; i < converted(); ++i)
      elements_.write(begin_ + i * step_, width_, copy_.data() + i * width_);
  }

 private:
  std::int64_t converted() const { return elements_.is_float32() ? 0 : count_; }

  void* memory_;
  FloatElements elements_;
  std::int64_t count_, width_, begin_, step_;
  std::vector<float> copy_;
};

// Those of the queries of this head.
QueryStatistics* statistics_of(const AttentionResult& result, std::int64_t item,
                               std::int64_t head) {
  const Shape& shape = result.statistics.shape();
  return reinterpret_cast<QueryStatistics*>(floats(result.statistics)) +
         (item * shape[1] + head) * shape[2];
}

void clear(Floats rows, std::int64_t from, std::int64_t to, std::int64_t width) {
  for (std::int64_t i = from; i < to; ++i) std::fill_n(rows.from(i).values, width, 0.0f);
}

// Whether products of a head of so many queries and keys are computed in bfloat16. Tiles multiply
// blocks of any shape. oneDNN would need a primitive for each, so without tiles, lengths that are
// no multiple of 16, as of ragged items and of single symbols, are computed in float32.
bool multiplies_bfloat16(DType type, std::int64_t queries, std::int64_t keys) {
  constexpr std::int64_t unit = 16;
  return type == DType::bfloat16 &&
         (has_tiles() || (has_bfloat16_products() && queries % unit == 0 && keys % unit == 0));
}

// Calls body(item, head, Head) for each, in a team of threads.
template <class Body>
void for_each_head(const HeadColumns& q, const HeadColumns& k, const HeadColumns& v,
                   const AttentionOptions& options, const Body& body) {
  const std::int64_t* const lengths =
      options.lengths ? options.lengths.data<std::int64_t>() : nullptr;
  for (std::int64_t item = 0; lengths != nullptr && item < q.items(); ++item)
    TASUKI_CHECK(0 <= lengths[item] && lengths[item] <= k.rows(),
                 "attention: item {} has {} of {} keys", item, lengths[item], k.rows());
  protect_team();
  parallel_for(q.items() * options.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t each = begin; each < end; ++each) {
      const std::int64_t item = each / options.heads, head = each % options.heads;
      const std::int64_t keys = lengths != nullptr ? lengths[item] : k.rows();
      const std::int64_t queries = keys == 0 ? 0 : (options.causal ? keys : q.rows());
      HeadRows of_q(q, item, head, options), of_k(k, item, head, options),
          of_v(v, item, head, options);
      const auto call = [&]<class T>(T) {
        body(item, head,
             Head<T>{of_q.operands<T>(), of_k.operands<T>(), of_v.operands<T>(), queries, keys,
                     options.head_width, options.scale, options.causal});
      };
      if (multiplies_bfloat16(q.array.dtype(), queries, keys))
        call(std::uint16_t{});
      else
        call(float{});
    }
  });
}

class CpuAttentionOperations final : public AttentionOperations {
 public:
  AttentionResult attention(const HeadColumns& q, const HeadColumns& k, const HeadColumns& v,
                            const AttentionOptions& options) override {
    check_attention(q, k, v, options);
    const std::int64_t width = options.heads * options.head_width, rows = q.rows();
    AttentionResult result{Tensor::empty({q.items(), rows, width}, q.array.dtype()),
                           Tensor::empty({q.items(), options.heads, rows, 2})};
    const HeadColumns y = {result.y};
    for_each_head(q, k, v, options, [&](std::int64_t item, std::int64_t head, const auto& each) {
      QueryStatistics* const statistics = statistics_of(result, item, head);
      HeadRows of_y(y, item, head, options);
      const Floats out = of_y.place();
      forward_head(each, out, statistics);
      clear(out, each.queries, rows, each.width);
      of_y.write();
      std::fill(statistics + each.queries, statistics + rows, QueryStatistics{0, 0});
    });
    return result;
  }

  void attention_gradient(const HeadColumns& q, const HeadColumns& k, const HeadColumns& v,
                          const AttentionResult& forward, const Tensor& upstream,
                          const AttentionOptions& options, const HeadColumns& dq,
                          const HeadColumns& dk, const HeadColumns& dv) override {
    check_attention(q, k, v, options);
    check_attention(dq, dk, dv, options);
    TASUKI_CHECK(upstream.shape() == forward.y.shape() && upstream.dtype() == forward.y.dtype(),
                 "gradient of attention: {} in {} and {} in {} differ", forward.y.shape().text(),
                 name_of(forward.y.dtype()), upstream.shape().text(), name_of(upstream.dtype()));
    const HeadColumns y = {forward.y}, dy = {upstream.plain()};
    for_each_head(
        q, k, v, options, [&]<class T>(std::int64_t item, std::int64_t head, const Head<T>& each) {
          HeadRows of_y(y, item, head, options), of_dy(dy, item, head, options),
              of_dq(dq, item, head, options), of_dk(dk, item, head, options),
              of_dv(dv, item, head, options);
          const Floats queries = of_dq.place(), keys = of_dk.place(), values = of_dv.place();
          clear(keys, 0, k.rows(), each.width);
          clear(values, 0, k.rows(), each.width);
          backward_head(each, of_y.read(), of_dy.read(), of_dy.operands<T>(),
                        statistics_of(forward, item, head), queries, keys, values);
          clear(queries, each.queries, q.rows(), each.width);
          for (const HeadRows* const each_of : {&of_dq, &of_dk, &of_dv}) each_of->write();
        });
  }
};

}  // namespace

AttentionOperations& CpuBackend::attention() {
  static CpuAttentionOperations operations;
  return operations;
}

}  // namespace tasuki
