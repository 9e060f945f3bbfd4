// interleaved_kernels.hpp for vectors of any width. Each source file that includes this is compiled
// for another processor, so everything here is local to the file, and nothing else is included: a
// function shared by two files might be the version that only some processors can run.
#pragma once

#include "tensor/cpu/interleaved_kernels.hpp"

namespace tasuki {
namespace {

template <int width>
struct Vectors {
  typedef float InRegister __attribute__((vector_size(width * sizeof(float))));
  typedef float InMemory
      __attribute__((vector_size(width * sizeof(float)), aligned(sizeof(float)), may_alias));
};

// Sums stay in registers: `rows` x `blocks` lines of them, of which the first `lanes` are computed.
template <int width, int rows, int blocks, int lanes = interleave>
void sum_of(const InterleavedSum& s) {
  using Vector = typename Vectors<width>::InRegister;
  using Stored = typename Vectors<width>::InMemory;
  constexpr int parts = lanes / width;
  Vector sums[rows][blocks * parts];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < blocks * parts; ++v) sums[r][v] = Vector{} + (s.bias ? s.bias[r] : 0.0f);

  for (std::int64_t t = 0; t < s.tap_count; ++t) {
    const float* x = s.x + s.taps[t].line;
    const float* w = s.weights + s.taps[t].weights;
    for (std::int64_t channel = 0; channel < s.channels;
         ++channel, x += s.x_channel, w += s.weights_channel) {
      Vector lines[blocks * parts];
#pragma GCC unroll 16
      for (int v = 0; v < blocks * parts; ++v)
        lines[v] = *reinterpret_cast<const Stored*>(x + v / parts * s.x_block + v % parts * width);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
        for (int v = 0; v < blocks * parts; ++v) sums[r][v] += w[r] * lines[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < blocks * parts; ++v)
      *reinterpret_cast<Stored*>(s.y + v / parts * s.y_block + r * s.y_row + v % parts * width) =
          sums[r][v];
  for (int r = 0; r < rows && lanes < interleave; ++r)
    for (int i = lanes; i < interleave; ++i) s.y[r * s.y_row + i] = 0;
}

template <int width, int rows, int taps, int lanes = interleave>
void gradient_of(const InterleavedGradient& g) {
  using Vector = typename Vectors<width>::InRegister;
  using Stored = typename Vectors<width>::InMemory;
  for (int part = 0; part < lanes; part += width) {
    Vector sums[rows][taps];
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int t = 0; t < taps; ++t)
        sums[r][t] =
            *reinterpret_cast<const Stored*>(g.sums + r * g.sums_row + t * interleave + part);
    for (std::int64_t i = 0; i < g.height; ++i) {
      const float* x = g.x + i * g.x_down + part;
      const float* dy = g.dy + i * g.width * interleave + part;
      for (std::int64_t j = 0; j < g.width; ++j, x += g.x_right, dy += interleave) {
        Vector lines[taps];
#pragma GCC unroll 16
        for (int t = 0; t < taps; ++t) lines[t] = *reinterpret_cast<const Stored*>(x + g.taps[t]);
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
          const Vector slope = *reinterpret_cast<const Stored*>(dy + r * g.dy_row);
#pragma GCC unroll 16
          for (int t = 0; t < taps; ++t) sums[r][t] += slope * lines[t];
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int t = 0; t < taps; ++t)
        *reinterpret_cast<Stored*>(g.sums + r * g.sums_row + t * interleave + part) = sums[r][t];
  }
}

// Calls call<rows, columns>() with sizes that are known at run time.
template <int rows, int columns, class Call>
void with_sizes(std::int64_t wanted_rows, std::int64_t wanted_columns, const Call& call) {
  if constexpr (rows > 0 && columns > 0) {
    if (wanted_columns < columns)
      return with_sizes<rows, columns - 1>(wanted_rows, wanted_columns, call);
    if (wanted_rows < rows) return with_sizes<rows - 1, columns>(wanted_rows, wanted_columns, call);
    call.template operator()<rows, columns>();
  }
}

template <int width, int most_rows, int most_blocks>
void sum(const InterleavedSum& s, std::int64_t wanted_rows, std::int64_t wanted_blocks) {
  with_sizes<most_rows, most_blocks>(
      wanted_rows, wanted_blocks, [&s]<int rows, int blocks>() { sum_of<width, rows, blocks>(s); });
}

template <int width, int most_rows, int most_taps>
void gradient(const InterleavedGradient& g, std::int64_t wanted_rows, std::int64_t wanted_taps) {
  with_sizes<most_rows, most_taps>(
      wanted_rows, wanted_taps, [&g]<int rows, int taps>() { gradient_of<width, rows, taps>(g); });
}

// Half a line, in vectors of at most its width.
constexpr int half = interleave / 2;
template <int width>
constexpr int half_width = width < half ? width : half;

template <int width, int most_rows>
void half_sum(const InterleavedSum& s, std::int64_t wanted_rows) {
  with_sizes<most_rows, 1>(wanted_rows, 1, [&s]<int rows, int blocks>() {
    sum_of<half_width<width>, rows, blocks, half>(s);
  });
}

template <int width, int most_rows, int most_taps>
void half_gradient(const InterleavedGradient& g, std::int64_t wanted_rows,
                   std::int64_t wanted_taps) {
  with_sizes<most_rows, most_taps>(wanted_rows, wanted_taps, [&g]<int rows, int taps>() {
    gradient_of<half_width<width>, rows, taps, half>(g);
  });
}

template <int width, int sum_rows, int sum_blocks, int gradient_rows, int gradient_taps>
constexpr InterleavedKernels kernels_of() {
  return {sum_rows,
          sum_blocks,
          gradient_rows,
          gradient_taps,
          sum<width, sum_rows, sum_blocks>,
          gradient<width, gradient_rows, gradient_taps>,
          half_sum<width, sum_rows>,
          half_gradient<width, gradient_rows, gradient_taps>};
}

}  // namespace
}  // namespace tasuki
