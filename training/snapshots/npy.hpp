// NPY, NumPy's format of one array (NEP 1): a header with type and shape, then the elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "tensor/tensor.hpp"

namespace tasuki {

// An array, or a text of any bytes (NumPy's 0-d unicode array; see to_utf8()). Zeros that end a
// text are lost.
using NpzValue = std::variant<Tensor, std::string>;

struct ArrayType {
  Shape shape;
  std::optional<DType> dtype;  // nothing: text, or `unreadable`
  // Why its elements cannot be read ("has elements of NumPy's type ..."); empty: they can.
  std::string unreadable{};
};

// The contents of a header.
struct NpyHeader : ArrayType {
  std::int64_t characters = 0;
  std::size_t header_bytes = 0;    // with magic and padding
  std::size_t data_bytes() const;  // unknown if it is unreadable
};

// Longest header that is read; real ones have a few hundred bytes.
inline constexpr std::size_t npy_header_limit = 4096;

// Header for these elements (bfloat16, which NumPy lacks, is announced as float32).
std::string npy_header(const NpzValue& value);
// Parses the start of a file (at least npy_header_limit bytes of it, or all). Throws an error of
// kind data that begins with `name` if it is damaged; arrays of other types and orders are
// unreadable.
NpyHeader parse_npy_header(std::span<const std::byte> start, std::string_view name);

// The elements that follow the header: a host tensor of a type that NumPy has, uint8 for texts.
Tensor npy_elements(const NpzValue& value);
// The reverse, from a buffer of header.data_bytes() bytes.
NpzValue npy_value(const NpyHeader& header, const Tensor& elements);

}  // namespace tasuki
