// Arrays of programs in other languages (tasuki.h) as tensors.
#pragma once

#include <string>
#include <string_view>

#include "bindings/tasuki.h"
#include "core/error.hpp"
#include "tensor/tensor.hpp"

namespace tasuki::bindings {

// The pointer; a null pointer is a usage error.
template <class Pointer>
Pointer not_null(Pointer pointer, const char* name) {
  if (pointer == nullptr)
    fail(ErrorKind::usage, "{}: expected an address, found a null pointer", name);
  return pointer;
}

// The shape with axis 0 for the examples, at least two axes. Errors are of kind usage and begin
// with `name`.
Shape checked_shape(const tasuki_array& array, std::string_view name);

// The values, row-major and on the CPU: the program's own memory where it has them so, else a copy.
// Floating-point values are float32; integers keep their type.
Tensor values_of(const tasuki_array& array, std::string_view name);

// Writes `values` (float32, on the CPU, row-major, of checked_shape() but for axes of size 1) as
// float32 or float64. Another shape or type is a usage error.
void write_values(const Tensor& values, const tasuki_array& array, std::string_view name);

// Whether the shapes are equal when axes of size 1, except axis 0, are left out.
bool is_same_but_for_ones(const Shape& a, const Shape& b);

// "3x100", with axes as the program has them.
std::string text_of(const Shape& shape, enum tasuki_order order);

}  // namespace tasuki::bindings
