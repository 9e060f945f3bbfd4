// Reductions, views and batched products of arrays.
#include "tensor/array_operations.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "tensor/cpu/accumulation_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/matrix_product.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/cpu/strided.hpp"
#include "tensor/geometry.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// visitor(address of an unsigned integer of the elements' size).
template <class Visitor>
void with_element(DType type, Visitor&& visitor) {
  switch (size_of(type)) {
    case 1:
      return visitor(static_cast<std::uint8_t*>(nullptr));
    case 2:
      return visitor(static_cast<std::uint16_t*>(nullptr));
    case 4:
      return visitor(static_cast<std::uint32_t*>(nullptr));
    default:
      return visitor(static_cast<std::uint64_t*>(nullptr));
  }
}

// The axis whose neighbours lie side by side in the source although the last one's do not: rows
// and columns are swapped, which is done in squares, because either walk alone would use one
// element of each cache line. -1 without one.
int swapped_axis(const StridedLoop<1>& loop) {
  if (loop.strides[0][loop.rank - 1] <= 1) return -1;
  for (int axis = loop.rank - 1; axis-- > 0;)
    if (loop.strides[0][axis] == 1) return axis;
  return -1;
}

template <class T>
void copy_swapped(const StridedLoop<1>& loop, int axis, const T* source, T* to) {
  constexpr std::int64_t square = 16;
  const int last = loop.rank - 1;
  std::int64_t to_steps[Shape::max_rank];  // between neighbours in the result
  to_steps[last] = 1;
  for (int i = last; i-- > 0;) to_steps[i] = to_steps[i + 1] * loop.sizes[i + 1];
  const std::int64_t width = loop.sizes[last], height = loop.sizes[axis];
  const std::int64_t items = to_steps[0] * loop.sizes[0] / (width * height);
  const std::int64_t bands = (height + square - 1) / square;
  const std::int64_t step = loop.strides[0][last], to_step = to_steps[axis];
  parallel_for(items * bands, elementwise_grain / (square * width) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t task = begin; task < end; ++task) {
                   // A band of rows of one of the matrices that are transposed.
                   const T* from = source;
                   T* result = to;
                   std::int64_t item = task / bands;
                   for (int i = last; i-- > 0;) {
                     if (i == axis) continue;
                     from += item % loop.sizes[i] * loop.strides[0][i];
                     result += item % loop.sizes[i] * to_steps[i];
                     item /= loop.sizes[i];
                   }
                   const std::int64_t top = task % bands * square,
                                      bottom = std::min(height, top + square);
                   for (std::int64_t left = 0; left < width; left += square) {
                     const std::int64_t right = std::min(width, left + square);
                     for (std::int64_t row = top; row < bottom; ++row)
                       for (std::int64_t column = left; column < right; ++column)
                         result[row * to_step + column] = from[row + column * step];
                   }
                 }
               });
}

// Copies between plain arrays and views of them, for elements of any type.
void copy_from_view(const View& view, const Tensor& source, const Tensor& to) {
  if (to.count() == 0) return;
  const StridedLoop<1> loop(view.shape, {view.strides});
  with_element(source.dtype(), [&]<class T>(T*) {
    const T* const from = static_cast<const T*>(source.raw()) + view.offset;
    T* const result = static_cast<T*>(to.raw());
    if (const int axis = swapped_axis(loop); axis >= 0)
      return copy_swapped(loop, axis, from, result);
    parallel_for(to.count(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      gather_elements(loop, from, begin, end - begin, result + begin);
    });
  });
}

void copy_to_view(const View& view, const Tensor& destination, const Tensor& from) {
  if (from.count() == 0) return;
  const StridedLoop<1> loop(view.shape, {view.strides});
  const std::int64_t step = loop.strides[0][loop.rank - 1];
  with_element(from.dtype(), [&]<class T>(T*) {
    const T* const source = static_cast<const T*>(from.raw());
    T* const result = static_cast<T*>(destination.raw()) + view.offset;
    parallel_for(from.count(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      StridedPosition<1> position(loop, begin);
      while (begin < end) {
        const std::int64_t run = std::min(end - begin, position.run());
        T* const place = result + position.offset(0);
        if (step == 1)
          std::copy_n(source + begin, run, place);
        else
          for (std::int64_t i = 0; i < run; ++i) place[i * step] = source[begin + i];
        position.advance(run);
        begin += run;
      }
    });
  });
}

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
  return elementwise_grain / (elements_of_task + 1) + 1;
}

// y (outer x inner) = the reduction of x (outer x length x inner); sizes are positive. Long axes
// are reduced in pieces of a length that depends on the sizes only, so results do not depend on the
// number of threads, and sums of n values have errors that grow little with n.
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

class CpuArrayOperations final : public ArrayOperations {
 public:
  Tensor reduce(Reduction op, const Tensor& x, AxisSet axes, float factor, DType type) override {
    const ReductionPlan plan(op, x.shape(), axes);
    if (x.count() == 0) return Tensor::full(plan.shape, 0.0 * static_cast<double>(factor), type);
    Tensor y = in_float32(x).plain();
    for (const AxisReduction& pass : plan.passes) {
      Tensor reduced = Tensor::empty({pass.outer, pass.inner});
      reduce_axis(op, pass, floats(y), floats(reduced));
      y = std::move(reduced);
    }
    if (plan.passes.empty() && factor != 1) y = y.clone();
    if (factor != 1) scale_kernel(floats(y), factor, y.count());
    return in_type(y.reshape(plan.shape), type);
  }

  Tensor take_view(const Tensor& x, const View& view) override {
    Tensor taken = Tensor::empty(view.shape, x.dtype());
    copy_from_view(view, x.plain(), taken);
    return taken;
  }

  void put_view(const Tensor& destination, const View& view, const Tensor& source) override {
    check_put(destination, view, source);
    copy_to_view(view, destination, source.plain());
  }

  Tensor matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                bool sums) override {
    const MatmulGeometry geometry(a.shape(), transpose_a, b.shape(), transpose_b, sums);
    const auto& [shape, batch, m, n, k, step_a, step_b, step_c] = geometry;
    const DType type = a.dtype();
    if (shape.count() == 0 || k == 0 || batch == 0) return Tensor::zeros(shape, type);
    if (type == DType::bfloat16 && b.dtype() == type && has_bfloat16_products() && !sums &&
        a.count() == batch * m * k && b.count() == batch * k * n) {
      Tensor y = Tensor::empty({batch, m, n}, type);
      const Shape of_a = transpose_a ? Shape{batch, k, m} : Shape{batch, m, k};
      const Shape of_b = transpose_b ? Shape{batch, n, k} : Shape{batch, k, n};
      multiply_rounded({a.reshape(of_a), transpose_a}, {b.reshape(of_b), transpose_b}, y);
      return y.reshape(shape);
    }
    const Tensor c = Tensor::empty(shape);
    const Tensor left = in_float32(a).plain(), right = in_float32(b).plain();
    multiply_batch({transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, floats(left),
                    floats(right), floats(c), 0},
                   batch, step_a, step_b, step_c);
    return in_type(c, type);
  }
};

}  // namespace

ArrayOperations& CpuBackend::arrays() {
  static CpuArrayOperations operations;
  return operations;
}

}  // namespace tasuki
