#include "tensor/cpu/channel_kernels.hpp"

#include <algorithm>
#include <array>

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// Neighbouring floats that are summed side by side.
constexpr std::int64_t width = 16;

using Line = std::array<double, width>;

// A line in registers, however many the processor needs, and in memory.
typedef float Vector __attribute__((vector_size(width * sizeof(float))));
typedef float Stored
    __attribute__((vector_size(width * sizeof(float)), aligned(sizeof(float)), may_alias));

// Adds the deviations of `rows` lines, `stride` apart, from `shifts`, and their squares. In float32
// it sums deviations from a line near by: if a channel's shift is an outlier, the squares of
// deviations from it are large and nearly equal, and rounding would leave nothing of the variance.
TASUKI_VECTORIZE void sum_lines(const float* x, std::int64_t rows, std::int64_t stride,
                                const float* shifts, double* sums, double* squares) {
  constexpr std::int64_t most = 64;  // rows that are summed in float32
  for (std::int64_t begin = 0; begin < rows; begin += most) {
    Vector sum{}, square{};
    const Vector near = *reinterpret_cast<const Stored*>(x + begin * stride);
    const std::int64_t end = std::min(rows, begin + most);
    for (std::int64_t row = begin; row < end; ++row) {
      const Vector deviation = *reinterpret_cast<const Stored*>(x + row * stride) - near;
      sum += deviation;
      square += deviation * deviation;
    }
    const auto count = static_cast<double>(end - begin);
    for (std::int64_t i = 0; i < width; ++i) {
      const double apart = double{near[i]} - double{shifts[i]}, all_apart = count * apart;
      sums[i] += double{sum[i]} + all_apart;
      squares[i] += double{square[i]} + apart * (2 * double{sum[i]} + all_apart);
    }
  }
}

// The same for fewer floats than a line has.
void sum_few(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t count,
             const float* shifts, double* sums, double* squares) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < count; ++i) {
      const double deviation = double{x[row * stride + i]} - double{shifts[i]};
      sums[i] += deviation;
      squares[i] += deviation * deviation;
    }
}

TASUKI_VECTORIZE void add_lines(float* y, const float* x, std::int64_t rows, std::int64_t stride,
                                const float* factors, const float* means, const float* shifts) {
  const Vector factor = *reinterpret_cast<const Stored*>(factors),
               mean = *reinterpret_cast<const Stored*>(means),
               shift = *reinterpret_cast<const Stored*>(shifts);
  for (std::int64_t row = 0; row < rows; ++row)
    *reinterpret_cast<Stored*>(y + row * stride) +=
        factor * (*reinterpret_cast<const Stored*>(x + row * stride) - mean) + shift;
}

void add_few(float* y, const float* x, std::int64_t rows, std::int64_t stride, std::int64_t count,
             const ChannelTerm& term) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < count; ++i)
      y[row * stride + i] +=
          term.factors[i] * (x[row * stride + i] - term.means[i]) + term.shifts[i];
}

using Numbers = std::array<float, width>;

// Numbers for a line, of the first `lanes` channels of `of_group`, which repeat if they are fewer.
Numbers line_of(const float* of_group, std::int64_t lanes) {
  Numbers line;
  for (std::size_t i = 0; i < line.size(); ++i)
    line[i] = of_group[i % static_cast<std::size_t>(lanes)];
  return line;
}

// Groups whose lanes fill lines: rows follow each other without a gap.
bool fills_lines(const ChannelOrder& order) {
  return order.lanes <= width && width % order.lanes == 0;
}

}  // namespace

std::optional<ChannelOrder> ChannelOrder::of(const Tensor& x) {
  const Shape& shape = x.shape();
  if (shape.rank() == 2) return ChannelOrder{1, 1, shape[0], shape[1]};
  const std::int64_t pixels = shape[2] * shape[3];
  if (x.is_plain()) return ChannelOrder{shape[0], shape[1], pixels, 1};
  const auto in_groups_of = [&](std::int64_t lanes) {
    return ChannelOrder{shape[0], (shape[1] + lanes - 1) / lanes, pixels, lanes};
  };
  using Tag = dnnl::memory::format_tag;
  const dnnl::memory::desc own = desc_of(x);
  const auto is = [&](Tag tag) {
    return own == dnnl::memory::desc({shape.begin(), shape.end()}, element_type(own), tag);
  };
  if (is(Tag::nChw16c)) return in_groups_of(16);
  if (is(Tag::nChw8c)) return in_groups_of(8);
  if (is(Tag::nChw4c)) return in_groups_of(4);
  if (is(Tag::nhwc)) return in_groups_of(shape[1]);
  return {};
}

// Parts are a matter of the shape alone: some items, and a line of channels or a group.
ChannelSums channel_sums(const float* x, const ChannelOrder& order) {
  const std::int64_t items = order.items, groups = order.groups;
  const std::int64_t rows = order.rows, lanes = order.lanes;
  const std::int64_t channels = order.channels(), item = channels * rows;
  const std::int64_t wanted = std::max<std::int64_t>(1, items * item / (8 * elementwise_grain));
  const std::int64_t parts = std::min({items, wanted, std::int64_t{64}});
  const std::int64_t tiles = fills_lines(order) ? 1 : (lanes + width - 1) / width;  // of a group
  std::vector<double> partial(static_cast<std::size_t>(2 * parts * channels), 0);
  std::vector<float> shifts(static_cast<std::size_t>(channels));
  for (std::int64_t c = 0; c < channels; ++c)
    shifts[static_cast<std::size_t>(c)] = x[c / lanes * rows * lanes + c % lanes];

  const auto sum_tile = [&](std::int64_t part, std::int64_t group, std::int64_t tile) {
    const std::int64_t first = tile * width, channel = group * lanes + first;
    double* const sums = partial.data() + 2 * part * channels + channel;
    double* const squares = sums + channels;
    const float* const of_group = shifts.data() + channel;
    const bool is_filled = fills_lines(order);
    const Numbers line_shifts = line_of(of_group, std::min(width, lanes - first));
    Line line_sums{}, line_squares{};
    for (std::int64_t n = items * part / parts; n < items * (part + 1) / parts; ++n) {
      const float* const from = x + n * item + group * rows * lanes + first;
      if (is_filled) {
        const std::int64_t lines = rows * lanes / width, rest = rows - lines * width / lanes;
        sum_lines(from, lines, width, line_shifts.data(), line_sums.data(), line_squares.data());
        sum_few(from + lines * width, rest, lanes, lanes, of_group, sums, squares);
      } else if (first + width <= lanes) {
        sum_lines(from, rows, lanes, line_shifts.data(), line_sums.data(), line_squares.data());
      } else {
        sum_few(from, rows, lanes, lanes - first, of_group, sums, squares);
      }
    }
    if (!is_filled && first + width > lanes) return;
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t lane = is_filled ? i % static_cast<std::size_t>(lanes) : i;
      sums[lane] += line_sums[i];
      squares[lane] += line_squares[i];
    }
  };
  const std::int64_t grain = std::max<std::int64_t>(
      1, elementwise_grain * parts * groups * tiles / std::max<std::int64_t>(1, items * item));
  parallel_for(parts * groups * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      sum_tile(i / (groups * tiles), i / tiles % groups, i % tiles);
  });

  // About zero.
  ChannelSums found{std::vector<double>(shifts.size(), 0), std::vector<double>(shifts.size(), 0)};
  const auto values = static_cast<double>(items * rows);
  for (std::size_t c = 0; c < shifts.size(); ++c) {
    double sum = 0, square = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const double* const of_part = partial.data() + 2 * part * channels + c;
      sum += of_part[0];
      square += of_part[channels];
    }
    const double shift = shifts[c];
    found.values[c] = values * shift + sum;
    found.squares[c] = square + shift * (2 * sum + values * shift);
  }
  return found;
}

void add_scaled_channels(float* y, const float* x, const ChannelOrder& order,
                         const ChannelTerm& term) {
  const std::int64_t items = order.items, groups = order.groups;
  const std::int64_t rows = order.rows, lanes = order.lanes;
  const std::int64_t size = rows * lanes;  // of an item's group
  const auto add_group = [&](std::int64_t i) {
    float* const to = y + i * size;
    const float* const from = x + i * size;
    const std::int64_t channel = i % groups * lanes;
    const auto term_from = [&](std::int64_t c) {
      return ChannelTerm{term.factors + c, term.means + c, term.shifts + c};
    };
    const ChannelTerm of_group = term_from(channel);
    if (fills_lines(order)) {
      const Numbers factors = line_of(of_group.factors, lanes),
                    means = line_of(of_group.means, lanes),
                    shifts = line_of(of_group.shifts, lanes);
      const std::int64_t lines = size / width, done = lines * width;
      add_lines(to, from, lines, width, factors.data(), means.data(), shifts.data());
      return add_few(to + done, from + done, (size - done) / lanes, lanes, lanes, of_group);
    }
    for (std::int64_t first = 0; first < lanes; first += width) {
      const ChannelTerm tile = term_from(channel + first);
      if (first + width <= lanes)
        add_lines(to + first, from + first, rows, lanes, tile.factors, tile.means, tile.shifts);
      else
        add_few(to + first, from + first, rows, lanes, lanes - first, tile);
    }
  };
  const std::int64_t grain = std::max<std::int64_t>(1, elementwise_grain / size);
  parallel_for(items * groups, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) add_group(i);
  });
}

}  // namespace tasuki
