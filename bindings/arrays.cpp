#include "bindings/arrays.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "tensor/cpu/strided.hpp"
#include "tensor/program_array.hpp"

namespace tasuki::bindings {
namespace {

static_assert(TASUKI_MAX_AXES == Shape::max_rank);

constexpr std::int64_t most_elements = std::int64_t{1} << 48;  // more than any memory holds

DType type_of(const tasuki_array& array, std::string_view name) {
  switch (array.type) {
    case TASUKI_FLOAT32:
      return DType::float32;
    case TASUKI_FLOAT64:
      return DType::float64;
    case TASUKI_INT32:
      return DType::int32;
    case TASUKI_INT64:
      return DType::int64;
  }
  fail(ErrorKind::usage, "{}: expected a type of enum tasuki_type, found {}", name,
       static_cast<int>(array.type));
}

// The array as its program describes it, slowest axis first.
ProgramArray described(const tasuki_array& array, std::string_view name) {
  if (array.axes < 1 || array.axes > TASUKI_MAX_AXES)
    fail(ErrorKind::usage, "{}: expected 1 to {} axes, found {}", name, TASUKI_MAX_AXES,
         array.axes);
  if (array.order != TASUKI_C_ORDER && array.order != TASUKI_FORTRAN_ORDER)
    fail(ErrorKind::usage, "{}: expected an order of enum tasuki_order, found {}", name,
         static_cast<int>(array.order));
  std::vector<std::int64_t> sizes(array.shape, array.shape + array.axes);
  std::vector<std::int64_t> strides(array.strides, array.strides + array.axes);
  std::int64_t count = 1;
  bool is_empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0)
      fail(ErrorKind::usage, "{}: expected sizes from 0, found {} (of x(*), pass x(:, 1:n))", name,
           size);
    is_empty = is_empty || size == 0;
    if (size > 0 && __builtin_mul_overflow(count, size, &count))
      count = std::numeric_limits<std::int64_t>::max();
  }
  if (count > most_elements)
    fail(ErrorKind::usage, "{}: expected at most {} elements, found more", name, most_elements);
  if (array.data == nullptr && !is_empty)
    fail(ErrorKind::usage, "{}: expected the address of {} elements, found a null pointer", name,
         count);
  if (array.order == TASUKI_FORTRAN_ORDER) {
    std::ranges::reverse(sizes);
    std::ranges::reverse(strides);
  }
  ProgramArray made;
  made.data = array.data;
  made.dtype = type_of(array, name);
  made.shape = Shape(sizes);
  made.strides = plain_strides(made.shape);
  if (std::ranges::any_of(strides, [](std::int64_t stride) { return stride != 0; }))
    std::ranges::copy(strides, made.strides.begin());
  return made;
}

Shape with_two_axes(const Shape& shape) {
  return shape.rank() == 1 ? Shape{shape[0], 1} : shape;
}

template <class Number>
void scatter(const Tensor& values, const StridedLoop<1>& loop, Number* to) {
  const float* from = values.data<float>();
  StridedPosition<1> position(loop, 0);
  const std::int64_t step = loop.strides[0][loop.rank - 1];
  for (std::int64_t left = values.count(); left > 0;) {
    const std::int64_t run = std::min(left, position.run());
    Number* const start = to + position.offset(0);
    for (std::int64_t i = 0; i < run; ++i) start[i * step] = from[i];
    position.advance(run);
    from += run;
    left -= run;
  }
}

}  // namespace

Shape checked_shape(const tasuki_array& array, std::string_view name) {
  return with_two_axes(described(array, name).shape);
}

Tensor values_of(const tasuki_array& array, std::string_view name) {
  const ProgramArray from = described(array, name);
  const Shape shape = with_two_axes(from.shape);
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(from.dtype);
  const Tensor values = bytes > 0 && !from.is_plain()
                            ? from.copy().reshape(shape)
                            : Tensor(borrowed_storage(from.data, bytes), 0, shape, from.dtype);
  return from.dtype == DType::float64 ? values.to(DType::float32) : values;
}

void write_values(const Tensor& values, const tasuki_array& array, std::string_view name) {
  const ProgramArray to = described(array, name);
  if (!is_same_but_for_ones(to.shape, values.shape()))
    fail(ErrorKind::usage, "{}: expected an array of {} for the result, found {}", name,
         text_of(values.shape(), array.order), text_of(to.shape, array.order));
  if (values.count() == 0) return;
  const StridedLoop<1> loop(to.shape, {to.strides});
  switch (to.dtype) {
    case DType::float32:
      return scatter(values, loop, static_cast<float*>(array.data));
    case DType::float64:
      return scatter(values, loop, static_cast<double*>(array.data));
    default:
      fail(ErrorKind::usage, "{}: expected float32 or float64 for the result, found {}", name,
           name_of(to.dtype));
  }
}

bool is_same_but_for_ones(const Shape& a, const Shape& b) {
  const auto without_ones = [](const Shape& shape) {
    std::vector<std::int64_t> sizes{shape[0]};
    std::copy_if(shape.begin() + 1, shape.end(), std::back_inserter(sizes),
                 [](std::int64_t size) { return size != 1; });
    return sizes;
  };
  return without_ones(a) == without_ones(b);
}

std::string text_of(const Shape& shape, enum tasuki_order order) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  if (order == TASUKI_FORTRAN_ORDER) std::ranges::reverse(sizes);
  return Shape(sizes).text();
}

}  // namespace tasuki::bindings
