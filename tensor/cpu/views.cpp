#include "tensor/cpu/array_kernels.hpp"

#include "tensor/cpu/strided.hpp"
#include "tensor/parallel.hpp"

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
  parallel_for(items * bands, eltwise_grain / (square * width) + 1,
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

}  // namespace

void copy_from_view(const View& view, const Tensor& source, const Tensor& to) {
  if (to.count() == 0) return;
  const StridedLoop<1> loop(view.shape, {view.strides});
  with_element(source.dtype(), [&]<class T>(T*) {
    const T* const from = static_cast<const T*>(source.raw()) + view.offset;
    T* const result = static_cast<T*>(to.raw());
    if (const int axis = swapped_axis(loop); axis >= 0)
      return copy_swapped(loop, axis, from, result);
    parallel_for(to.count(), eltwise_grain, [&](std::int64_t begin, std::int64_t end) {
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
    parallel_for(from.count(), eltwise_grain, [&](std::int64_t begin, std::int64_t end) {
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

}  // namespace tasuki
