#include "dataset/images/resample.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// Weights are multiples of 1 / one, and those of a result add up to one.
constexpr int weight_bits = 15;
constexpr std::int32_t one = 1 << weight_bits;

// The source pixels of each result along an axis: `first`, and as many as there are weights.
struct Taps {
  std::vector<std::int32_t> first;
  std::vector<std::size_t> begin{0};  // where the weights of each result begin; one more at the end
  std::vector<std::int32_t> weights;
  std::size_t count_of(std::size_t result) const { return begin[result + 1] - begin[result]; }
};

// The pixels that result i of an axis may be made of.
struct Reach {
  double center, support;
  std::int64_t first, end;
};
Reach reach_of(const ViewedAxis& axis, std::int64_t i) {
  const double support = std::max(1.0, axis.step);
  const double center = axis.begin + (static_cast<double>(i) + 0.5) * axis.step;
  const auto first = static_cast<std::int64_t>(std::floor(center - support + 0.5));
  const auto end = static_cast<std::int64_t>(std::floor(center + support + 0.5));
  return {center, support, std::clamp(first, axis.low, axis.high - 1),
          std::clamp(end, axis.low + 1, axis.high)};
}

// Positions are counted from `origin`.
Taps taps_of(const ViewedAxis& axis, std::int64_t origin) {
  Taps taps;
  std::vector<double> exact;
  for (std::int64_t i = 0; i < axis.count; ++i) {
    const Reach reach = reach_of(axis, i);
    exact.clear();
    double sum = 0;
    for (std::int64_t at = reach.first; at < reach.end; ++at) {
      const double distance = std::abs(static_cast<double>(at) + 0.5 - reach.center);
      exact.push_back(std::max(0.0, 1 - distance / reach.support));
      sum += exact.back();
    }
    if (sum == 0) exact[0] = sum = 1;
    const std::size_t begin = taps.weights.size();
    std::int32_t rest = one;
    for (const double weight : exact) {
      taps.weights.push_back(static_cast<std::int32_t>(std::lround(weight / sum * one)));
      rest -= taps.weights.back();
    }
    *std::max_element(taps.weights.begin() + static_cast<std::ptrdiff_t>(begin),
                      taps.weights.end()) += rest;
    taps.first.push_back(static_cast<std::int32_t>(reach.first - origin));
    taps.begin.push_back(taps.weights.size());
  }
  return taps;
}

// The results of one row of RGB pixels, each packed into 32 bits. Reads a byte beyond the last
// pixel. Results are written from `to` on with this step.
using Lanes [[gnu::vector_size(16)]] = std::int32_t;
using Bytes4 [[gnu::vector_size(4)]] = std::uint8_t;

TASUKI_VECTORIZE void shrink_row(const std::uint8_t* row, const std::int32_t* first,
                                 const std::size_t* begin, const std::int32_t* weights,
                                 std::size_t count, std::uint32_t* to, std::ptrdiff_t step) {
  for (std::size_t x = 0; x < count; ++x, to += step) {
    const std::uint8_t* pixel = row + 3 * static_cast<std::ptrdiff_t>(first[x]);
    Lanes sum = {one / 2, one / 2, one / 2, one / 2};
    for (std::size_t tap = begin[x]; tap < begin[x + 1]; ++tap, pixel += 3) {
      Bytes4 bytes;
      std::memcpy(&bytes, pixel, sizeof bytes);
      sum += __builtin_convertvector(bytes, Lanes) * weights[tap];
    }
    sum >>= weight_bits;
    const Bytes4 result = __builtin_convertvector(sum, Bytes4);
    std::memcpy(to, &result, sizeof result);
  }
}

TASUKI_VECTORIZE void add_row(const std::uint8_t* row, std::int32_t weight, std::int32_t* sums,
                              std::size_t count) {
  for (std::size_t x = 0; x < count; ++x) sums[x] += row[x] * weight;
}

TASUKI_VECTORIZE void round_sums(const std::int32_t* sums, std::uint8_t* to, std::size_t count) {
  for (std::size_t x = 0; x < count; ++x) to[x] = static_cast<std::uint8_t>(sums[x] >> weight_bits);
}

}  // namespace

Range pixels_for(const ViewedAxis& axis) {
  return {reach_of(axis, 0).first, reach_of(axis, axis.count - 1).end};
}

void resample(const ImagePart& part, const ImageView& view, std::vector<std::uint32_t>& pixels) {
  static_assert(std::endian::native == std::endian::little, "bytes of a pixel begin with red");
  const auto width = static_cast<std::size_t>(view.columns.count);
  const auto height = static_cast<std::size_t>(view.rows.count);
  const Taps columns = taps_of(view.columns, part.left), rows = taps_of(view.rows, part.top);
  const Image& image = part.image;

  // Along rows first, as Pillow does, for the rows that are needed.
  const Range needed = pixels_for(view.rows);
  const std::int64_t top = needed.begin - part.top;
  std::vector<std::uint32_t> narrow(static_cast<std::size_t>(needed.size()) * width);
  const auto row_bytes = static_cast<std::size_t>(image.width * 3);
  std::vector<std::uint8_t> last_row;
  for (std::int64_t y = 0; y < needed.size(); ++y) {
    const std::uint8_t* row = image.pixels.data() + static_cast<std::size_t>(top + y) * row_bytes;
    if (top + y + 1 == image.height) {
      last_row.assign(row, row + row_bytes);
      last_row.push_back(0);
      row = last_row.data();
    }
    std::uint32_t* const to = narrow.data() + static_cast<std::size_t>(y) * width;
    shrink_row(row, columns.first.data(), columns.begin.data(), columns.weights.data(), width,
               view.is_mirrored ? to + width - 1 : to, view.is_mirrored ? -1 : 1);
  }

  pixels.resize(height * width);
  std::vector<std::int32_t> sums(4 * width);
  for (std::size_t y = 0; y < height; ++y) {
    const auto first = static_cast<std::size_t>(rows.first[y] - top);
    const std::uint32_t* from = narrow.data() + first * width;
    std::uint32_t* const to = pixels.data() + y * width;
    if (rows.count_of(y) == 1) {
      std::copy_n(from, width, to);
      continue;
    }
    std::ranges::fill(sums, one / 2);
    for (std::size_t tap = rows.begin[y]; tap < rows.begin[y + 1]; ++tap, from += width)
      add_row(reinterpret_cast<const std::uint8_t*>(from), rows.weights[tap], sums.data(),
              sums.size());
    round_sums(sums.data(), reinterpret_cast<std::uint8_t*>(to), sums.size());
  }
}

}  // namespace tasuki
