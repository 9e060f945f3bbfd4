#include "tensor/normalization_operations.hpp"

#include <algorithm>
#include <vector>

#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/norm_kernels.hpp"
#include "tensor/cpu/softmax_kernels.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

// Smallest number of rows of this length for a thread.
std::int64_t grain_of_rows(std::int64_t length) {
  constexpr std::int64_t worth_a_thread = 8192;
  return worth_a_thread / (length + 1) + 1;
}

// Calls row(offset, buffers) for each contiguous row, or columns(offset, count, buffers) for
// neighbouring columns, of elements that lie as those given.
template <int buffers_needed, class Row, class Columns>
void for_each_row(const AxisView& view, const FloatElements& elements, const Row& row,
                  const Columns& columns) {
  if (view.inner == 1) {
    parallel_for(view.outer, grain_of_rows(view.length), [&](std::int64_t begin, std::int64_t end) {
      FloatBuffers<buffers_needed> buffers(elements, view.length);
      for (std::int64_t i = begin; i < end; ++i) row(i * view.length, buffers);
    });
    return;
  }
  const std::int64_t blocks = (view.inner + most_softmax_columns - 1) / most_softmax_columns;
  const std::int64_t grain = grain_of_rows(view.length * most_softmax_columns);
  parallel_for(view.outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    FloatBuffers<buffers_needed> buffers(elements,
                                         view.length * std::min(most_softmax_columns, view.inner));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = i % blocks * most_softmax_columns;
      columns(i / blocks * view.length * view.inner + at,
              std::min(most_softmax_columns, view.inner - at), buffers);
    }
  });
}

RowStatistics statistics_of(const float* statistics, std::int64_t row) {
  return {statistics[2 * row], statistics[2 * row + 1]};
}

class CpuNormalizationOperations final : public NormalizationOperations {
 public:
  Tensor softmax(const Tensor& source, int axis, bool logarithm) override {
    const AxisView view(source.shape(), axis);
    const Tensor x = source.plain();
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    if (x.count() == 0) return y;
    const FloatElements from(x), to(y);
    const std::int64_t length = view.length, inner = view.inner;
    for_each_row<2>(
        view, from,
        [&](std::int64_t at, auto& buffers) {
          float* const row = to.place(at, buffers[1]);
          softmax_row(from.read(at, length, buffers[0]), row, length, logarithm);
          to.write(at, length, row);
        },
        [&](std::int64_t at, std::int64_t count, auto& buffers) {
          const auto in = from.read_rows(at, length, inner, count, buffers[0]);
          const auto out = to.place_rows(at, inner, count, buffers[1]);
          softmax_columns(in.values, out.values, length, in.step, count, logarithm);
          to.write_rows(at, length, inner, count, out.values);
        });
    return y;
  }

  Tensor softmax_gradient(const Tensor& result, const Tensor& upstream, int axis,
                          bool logarithm) override {
    TASUKI_CHECK(result.shape() == upstream.shape() && result.dtype() == upstream.dtype(),
                 "gradient of softmax: {} of {} and {} of {} differ", result.shape().text(),
                 name_of(result.dtype()), upstream.shape().text(), name_of(upstream.dtype()));
    const AxisView view(result.shape(), axis);
    const Tensor y = result.plain(), dy = upstream.plain();
    Tensor dx = Tensor::empty(y.shape(), y.dtype());
    if (y.count() == 0) return dx;
    const FloatElements values(y), slopes(dy), to(dx);
    const std::int64_t length = view.length, inner = view.inner;
    for_each_row<3>(
        view, values,
        [&](std::int64_t at, auto& buffers) {
          float* const row = to.place(at, buffers[2]);
          softmax_row_gradient(values.read(at, length, buffers[0]),
                               slopes.read(at, length, buffers[1]), row, length, logarithm);
          to.write(at, length, row);
        },
        [&](std::int64_t at, std::int64_t count, auto& buffers) {
          const auto own = values.read_rows(at, length, inner, count, buffers[0]),
                     in = slopes.read_rows(at, length, inner, count, buffers[1]);
          const auto out = to.place_rows(at, inner, count, buffers[2]);
          softmax_columns_gradient(own.values, in.values, out.values, length, own.step, count,
                                   logarithm);
          to.write_rows(at, length, inner, count, out.values);
        });
    return dx;
  }

  NormResult normalize(const Tensor& source, const NormRows& rows, const Tensor& gamma,
                       const Tensor& beta, float eps) override {
    check_norm(source, rows, gamma, beta);
    const Tensor x = source.plain();
    NormResult result{Tensor::empty(x.shape(), x.dtype()), Tensor::empty({rows.rows(), 2})};
    const std::int64_t length = rows.length();
    if (x.count() == 0) return result;
    const FloatElements from(x), to(result.y);
    float* const statistics = floats(result.statistics);
    parallel_for(rows.rows(), grain_of_rows(length), [&](std::int64_t begin, std::int64_t end) {
      FloatBuffers<2> buffers(from, length);
      for (std::int64_t i = begin; i < end; ++i) {
        const float* const values = from.read(i * length, length, buffers[0]);
        float* const y = to.place(i * length, buffers[1]);
        const RowStatistics row = row_statistics(values, length, eps);
        statistics[2 * i] = row.mean;
        statistics[2 * i + 1] = row.inverse;
        const float* const g = floats(gamma) + i % rows.groups * rows.channels;
        const float* const b = floats(beta) + i % rows.groups * rows.channels;
        if (rows.pixels == 1)
          normalize_row(values, g, b, y, row, length);
        else
          for (std::int64_t c = 0; c < rows.channels; ++c)
            normalize_channel(values + c * rows.pixels, y + c * rows.pixels, g[c], b[c], row,
                              rows.pixels);
        to.write(i * length, length, y);
      }
    });
    return result;
  }

  Tensor normalize_gradient(const Tensor& source, const NormRows& rows, const Tensor& statistics,
                            const Tensor& upstream, const Tensor& gamma, const Tensor& dgamma,
                            const Tensor& dbeta, bool accumulate, const Tensor& added) override {
    check_norm(source, rows, dgamma, dbeta);
    for (const Tensor& gradient : {upstream, added})
      TASUKI_CHECK(
          !gradient || (gradient.shape() == source.shape() && gradient.dtype() == source.dtype()),
          "gradient of a normalisation: {} of {} and {} of {} differ", source.shape().text(),
          name_of(source.dtype()), gradient.shape().text(), name_of(gradient.dtype()));
    const Tensor x = source.plain(), dy = upstream.plain(), sum = added ? added.plain() : added;
    Tensor dx = Tensor::empty(x.shape(), x.dtype());
    const FloatElements values(x), slopes(dy), addends(sum), result(dx);
    // Parts of the items, each with its own sums, whatever the number of threads.
    constexpr std::int64_t most_parts = 16;
    const std::int64_t parts = x.count() == 0 ? 0 : std::min(rows.items, most_parts);
    const std::int64_t channels = rows.all_channels();
    std::vector<float> sums(static_cast<std::size_t>(parts * 2 * channels));
    const auto part = [&](std::int64_t p) {
      float* const own = sums.data() + p * 2 * channels;
      const std::int64_t first = rows.items * p / parts * rows.groups;
      const std::int64_t last = rows.items * (p + 1) / parts * rows.groups;
      FloatBuffers<4> buffers(values, rows.length());
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t channel = i % rows.groups * rows.channels, at = i * rows.length();
        float* const to = result.place(at, buffers[2]);
        row_gradient(values.read(at, rows.length(), buffers[0]),
                     slopes.read(at, rows.length(), buffers[1]), floats(gamma) + channel,
                     addends ? addends.read(at, rows.length(), buffers[3]) : nullptr, to,
                     own + channel, own + channels + channel, statistics_of(floats(statistics), i),
                     rows);
        result.write(at, rows.length(), to);
      }
    };
    const std::int64_t grain =
        parts == 0 ? 1 : grain_of_rows(rows.length() * rows.groups * (rows.items / parts));
    parallel_for(parts, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) part(p);
    });
    add_up(dgamma, sums, 0, parts, accumulate);
    add_up(dbeta, sums, channels, parts, accumulate);
    return dx;
  }

 private:
  static void row_gradient(const float* x, const float* dy, const float* gamma, const float* added,
                           float* dx, float* dgamma, float* dbeta, RowStatistics row,
                           const NormRows& rows) {
    if (rows.pixels == 1)
      return normalize_row_gradient(x, dy, gamma, added, dx, dgamma, dbeta, row, rows.channels);
    float dy_sum = 0, product_sum = 0;
    for (std::int64_t c = 0; c < rows.channels; ++c) {
      const std::int64_t at = c * rows.pixels;
      const SlopeSums channel = slope_sums(x + at, dy + at, row, rows.pixels);
      dbeta[c] += channel.dy;
      dgamma[c] += channel.product;
      dy_sum += gamma[c] * channel.dy;
      product_sum += gamma[c] * channel.product;
    }
    const auto n = static_cast<float>(rows.length());
    for (std::int64_t c = 0; c < rows.channels; ++c) {
      const std::int64_t at = c * rows.pixels;
      channel_gradient(x + at, dy + at, added != nullptr ? added + at : nullptr, dx + at, gamma[c],
                       dy_sum / n, product_sum / n, row, rows.pixels);
    }
  }

  // The sums of all parts, which begin at `offset` in each of them.
  static void add_up(const Tensor& destination, const std::vector<float>& sums, std::int64_t offset,
                     std::int64_t parts, bool accumulate) {
    float* const to = floats(destination);
    const std::int64_t channels = destination.count();
    if (!accumulate) std::fill_n(to, channels, 0.0f);
    for (std::int64_t p = 0; p < parts; ++p) {
      const float* const own = sums.data() + p * 2 * channels + offset;
      for (std::int64_t c = 0; c < channels; ++c) to[c] += own[c];
    }
  }
};

}  // namespace

NormalizationOperations& CpuBackend::normalization() {
  static CpuNormalizationOperations operations;
  return operations;
}

}  // namespace tasuki
