// Attention on CPUs: each head of each item by one thread, in blocks of queries x keys whose scores
// stay in the processor's cache. The products of a block are oneDNN's sgemm. A head's columns of 16
// bits are converted to float32 when its work begins, which costs a few percent of the time.
#include "tensor/attention_operations.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "tensor/cpu/attention_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/cpu/float_blocks.hpp"

namespace tasuki {
namespace {

// Two blocks of scores are 128 KiB. Of causal attention, what a block of queries does not see of
// the keys is not computed.
constexpr std::int64_t query_block = 64, key_block = 256;
constexpr float no_score = std::numeric_limits<float>::lowest();

// Rows of floats, `step` apart.
struct Rows {
  float* values;
  std::int64_t step;
  Rows from(std::int64_t row) const { return {values + row * step, step}; }
};

// One head of one item.
struct Head {
  Rows q, k, v;
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

// Products, on one thread as long as the caller runs in a team of threads; keeps the first failure,
// because code in such a team must not throw.
class Products {
 public:
  // c (m x n) = alpha op(a) op(b) + beta c
  void operator()(char ta, char tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                  Rows a, Rows b, float beta, Rows c) {
    const dnnl_status_t status = dnnl_sgemm(ta, tb, m, n, k, alpha, a.values, a.step, b.values,
                                            b.step, beta, c.values, c.step);
    if (status != dnnl_success) failure_ = status;
  }
  void check() const {
    check_dnnl(failure_, [] { return "the matrix products of attention"; });
  }

 private:
  std::atomic<dnnl_status_t> failure_ = dnnl_success;
};

void forward_head(const Head& head, Products& multiply, float* block, Rows y,
                  QueryStatistics* statistics) {
  for (std::int64_t i = 0; i < head.queries; i += query_block) {
    const std::int64_t m = std::min(query_block, head.queries - i);
    const Rows out = y.from(i);
    std::fill_n(statistics + i, m, QueryStatistics{no_score, 0});
    const std::int64_t keys = head.visible(i + m);
    for (std::int64_t j = 0; j < keys; j += key_block) {
      const std::int64_t n = std::min(key_block, keys - j);
      const Rows scores = {block, n};
      multiply('N', 'T', m, n, head.width, head.scale, head.q.from(i), head.k.from(j), 0, scores);
      for (std::int64_t r = 0; r < m; ++r) {
        const float factor =
            attention_row(scores.from(r).values, head.seen(i + r, j, n), n, statistics + i + r);
        if (j > 0) scale_floats(out.from(r).values, head.width, factor);
      }
      multiply('N', 'N', m, head.width, n, 1, scores, head.v.from(j), j > 0 ? 1.0f : 0.0f, out);
    }
    for (std::int64_t r = 0; r < m; ++r)
      scale_floats(out.from(r).values, head.width, 1 / statistics[i + r].sum);
  }
}

// Adds to dk and dv.
void backward_head(const Head& head, Products& multiply, float* block, Rows y, Rows dy,
                   const QueryStatistics* statistics, Rows dq, Rows dk, Rows dv) {
  float deltas[query_block];
  for (std::int64_t i = 0; i < head.queries; i += query_block) {
    const std::int64_t m = std::min(query_block, head.queries - i);
    for (std::int64_t r = 0; r < m; ++r)
      deltas[r] = dot_product(y.from(i + r).values, dy.from(i + r).values, head.width);
    const std::int64_t keys = head.visible(i + m);
    for (std::int64_t j = 0; j < keys; j += key_block) {
      const std::int64_t n = std::min(key_block, keys - j);
      const Rows weights = {block, n}, slopes = {block + query_block * key_block, n};
      multiply('N', 'T', m, n, head.width, head.scale, head.q.from(i), head.k.from(j), 0, weights);
      multiply('N', 'T', m, n, head.width, 1, dy.from(i), head.v.from(j), 0, slopes);
      for (std::int64_t r = 0; r < m; ++r) {
        attention_weights(weights.from(r).values, head.seen(i + r, j, n), n, statistics[i + r]);
        attention_slopes(weights.from(r).values, slopes.from(r).values, n, deltas[r], head.scale);
      }
      multiply('T', 'N', n, head.width, m, 1, weights, dy.from(i), 1, dv.from(j));
      multiply('T', 'N', n, head.width, m, 1, slopes, head.q.from(i), 1, dk.from(j));
      multiply('N', 'N', m, head.width, n, 1, slopes, head.k.from(j), j > 0 ? 1.0f : 0.0f,
               dq.from(i));
    }
  }
}

// The rows of one head as floats: where they lie, or a copy of those that have 16 bits.
class HeadRows {
 public:
  HeadRows(const HeadColumns& columns, std::int64_t item, std::int64_t head,
           const AttentionOptions& options)
      : elements_(columns.array),
        count_(columns.rows()),
        width_(options.head_width),
        begin_(item * count_ * columns.width() + columns.begin + head * width_),
        step_(columns.width()) {
    if (!elements_.is_float32()) copy_.resize(static_cast<std::size_t>(count_ * width_));
  }

  Rows read() {
    for (std::int64_t i = 0; i < converted(); ++i)
      elements_.read(begin_ + i * step_, width_, copy_.data() + i * width_);
    return place();
  }
  // Rows to be filled, and then written.
  Rows place() {
    return elements_.is_float32() ? Rows{elements_.place(begin_, nullptr), step_}
                                  : Rows{copy_.data(), width_};
  }
  void write() const {
    for (std::int64_t i = 0; i < converted(); ++i)
      elements_.write(begin_ + i * step_, width_, copy_.data() + i * width_);
  }

 private:
  std::int64_t converted() const { return elements_.is_float32() ? 0 : count_; }

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

void clear(Rows rows, std::int64_t from, std::int64_t to, std::int64_t width) {
  for (std::int64_t i = from; i < to; ++i) std::fill_n(rows.from(i).values, width, 0.0f);
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
      body(item, head,
           Head{of_q.read(), of_k.read(), of_v.read(), queries, keys, options.head_width,
                options.scale, options.causal});
    }
  });
}

// Memory of each thread for two blocks of scores.
float* scratch() {
  thread_local std::vector<float> blocks(2 * query_block * key_block);
  return blocks.data();
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
    Products multiply;
    for_each_head(q, k, v, options, [&](std::int64_t item, std::int64_t head, const Head& each) {
      QueryStatistics* const statistics = statistics_of(result, item, head);
      HeadRows of_y(y, item, head, options);
      const Rows out = of_y.place();
      forward_head(each, multiply, scratch(), out, statistics);
      clear(out, each.queries, rows, each.width);
      of_y.write();
      std::fill(statistics + each.queries, statistics + rows, QueryStatistics{0, 0});
    });
    multiply.check();
    return result;
  }

  void attention_gradient(const HeadColumns& q, const HeadColumns& k, const HeadColumns& v,
                          const AttentionResult& forward, const Tensor& upstream,
                          const AttentionOptions& options, const HeadColumns& dq,
                          const HeadColumns& dk, const HeadColumns& dv) override {
    check_attention(q, k, v, options);
    check_attention(dq, dk, dv, options);
    TASUKI_CHECK(upstream.shape() == forward.y.shape(),
                 "gradient of attention: shapes {} and {} differ", forward.y.shape().text(),
                 upstream.shape().text());
    const HeadColumns y = {forward.y}, dy = {upstream.plain()};
    Products multiply;
    for_each_head(q, k, v, options, [&](std::int64_t item, std::int64_t head, const Head& each) {
      HeadRows of_y(y, item, head, options), of_dy(dy, item, head, options),
          of_dq(dq, item, head, options), of_dk(dk, item, head, options),
          of_dv(dv, item, head, options);
      const Rows queries = of_dq.place(), keys = of_dk.place(), values = of_dv.place();
      clear(keys, 0, k.rows(), each.width);
      clear(values, 0, k.rows(), each.width);
      backward_head(each, multiply, scratch(), of_y.read(), of_dy.read(),
                    statistics_of(forward, item, head), queries, keys, values);
      clear(queries, each.queries, q.rows(), each.width);
      for (const HeadRows* const each_of : {&of_dq, &of_dk, &of_dv}) each_of->write();
    });
    multiply.check();
  }
};

}  // namespace

AttentionOperations& CpuBackend::attention() {
  static CpuAttentionOperations operations;
  return operations;
}

}  // namespace tasuki
