#include "tensor/cpu/array_kernels.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

[[gnu::always_inline]] inline float larger(float a, float b) {
  return (a > b || a != a) ? a : b;
}

// Sixteen results at once: a single one would be a chain of dependent operations.
constexpr int lanes_at_once = 16;

TASUKI_VECTORIZE float row_sum(const float* x, std::int64_t count) {
  float lanes[lanes_at_once] = {};
  std::int64_t j = 0;
  for (; j + lanes_at_once <= count; j += lanes_at_once)
    for (int lane = 0; lane < lanes_at_once; ++lane) lanes[lane] += x[j + lane];
  float sum = 0;
  for (; j < count; ++j) sum += x[j];
  for (const float lane : lanes) sum += lane;
  return sum;
}

TASUKI_VECTORIZE float row_max(const float* x, std::int64_t count) {
  float lanes[lanes_at_once];
  for (float& lane : lanes) lane = x[0];
  std::int64_t j = 0;
  for (; j + lanes_at_once <= count; j += lanes_at_once)
    for (int lane = 0; lane < lanes_at_once; ++lane) lanes[lane] = larger(lanes[lane], x[j + lane]);
  float top = x[0];
  for (; j < count; ++j) top = larger(top, x[j]);
  for (const float lane : lanes) top = larger(top, lane);
  return top;
}

// y[j] = x[0][j] + x[1][j] + ..., rows `step` apart; four rows at a time, so that results are
// loaded and stored a quarter as often.
TASUKI_VECTORIZE void column_sums(const float* x, std::int64_t step, float* __restrict y,
                                  std::int64_t rows, std::int64_t columns) {
  for (std::int64_t j = 0; j < columns; ++j) y[j] = x[j];
  std::int64_t i = 1;
  for (; i + 4 <= rows; i += 4) {
    const float* const r0 = x + i * step;
    const float* const r1 = r0 + step;
    const float* const r2 = r1 + step;
    const float* const r3 = r2 + step;
    for (std::int64_t j = 0; j < columns; ++j) y[j] += (r0[j] + r1[j]) + (r2[j] + r3[j]);
  }
  for (; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) y[j] += x[i * step + j];
}

TASUKI_VECTORIZE void column_max(const float* x, std::int64_t step, float* __restrict y,
                                 std::int64_t rows, std::int64_t columns) {
  for (std::int64_t j = 0; j < columns; ++j) y[j] = x[j];
  for (std::int64_t i = 1; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) y[j] = larger(y[j], x[i * step + j]);
}

std::int64_t pieces_of(std::int64_t length, std::int64_t piece) {
  return (length + piece - 1) / piece;
}

// Elements for which waking a thread pays.
std::int64_t task_grain(std::int64_t elements_of_task) {
  return eltwise_grain / (elements_of_task + 1) + 1;
}

}  // namespace

void reduce_axis(Reduction op, const AxisReduction& pass, const float* x, float* y) {
  const std::int64_t outer = pass.outer, length = pass.length, inner = pass.inner;
  // Rows of a piece: where results are single, as many as keep a vector register busy; else enough
  // that writing the pieces' results costs little beside reading them.
  const std::int64_t rows = inner == 1 ? 8192 : std::max<std::int64_t>(128, 16384 / inner);
  const std::int64_t pieces = pieces_of(length, rows);
  std::vector<float> partial;
  if (pieces > 1) partial.resize(static_cast<std::size_t>(outer * pieces * inner));
  float* const results = pieces > 1 ? partial.data() : y;

  constexpr std::int64_t block = 4096;  // columns whose results stay in the first cache
  const std::int64_t blocks = pieces_of(inner, block);
  const std::int64_t task = std::min(rows, length) * std::min(block, inner);
  parallel_for(outer * pieces * blocks, task_grain(task),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t t = begin; t < end; ++t) {
                   const std::int64_t column = t % blocks * block, piece = t / blocks % pieces;
                   const std::int64_t item = t / blocks / pieces, row = piece * rows;
                   const std::int64_t count = std::min(rows, length - row);
                   const float* const from = x + (item * length + row) * inner + column;
                   float* const to = results + (item * pieces + piece) * inner + column;
                   const std::int64_t columns = std::min(block, inner - column);
                   if (inner == 1)
                     *to = op == Reduction::sum ? row_sum(from, count) : row_max(from, count);
                   else if (op == Reduction::sum)
                     column_sums(from, inner, to, count, columns);
                   else
                     column_max(from, inner, to, count, columns);
                 }
               });
  if (pieces > 1) reduce_axis(op, {outer, pieces, inner}, results, y);
}

}  // namespace tasuki
