// ElementType: the numbers of an array in a file, and what they become in a data set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.hpp"

namespace tasuki {

struct ElementType {
  enum class Kind : std::uint8_t { boolean, unsigned_integer, signed_integer, floating };
  Kind kind = Kind::floating;
  int bytes = 4;  // 1, 2, 4 or 8
  bool is_big_endian = false;

  // NumPy's: "bool", "uint16", "float32 (big endian)".
  std::string name() const;
  friend bool operator==(const ElementType&, const ElementType&) = default;
};

// Of NumPy's name of a type, such as "<f4", ">i2" or "|b1"; nothing for other types.
std::optional<ElementType> element_type_of_numpy(std::string_view descr);

// How a field of such elements is stored in a data set, and decoded in batches (Field).
struct FieldTypes {
  DType stored, decoded;
};
// `wanted` is the type in batches: float32, int32 or int64. By default, labels (`has_classes`) are
// int32; int32, uint32, int64 and uint64 are int32, int64, int64, int64; all other types float32,
// uint8 as value / 255. Nothing if the elements cannot have the type that is wanted: fractions are
// no integers.
std::optional<FieldTypes> field_types(const ElementType& elements, std::optional<DType> wanted,
                                      bool has_classes);

// Writes `count` values of type `stored` from elements that may lie at any address. An integer that
// `stored` cannot hold is an error of kind data.
using ElementReader =
    std::function<void(const std::byte* elements, std::byte* values, std::int64_t count)>;
// For a pair of types that field_types() gives. `place` is for messages.
ElementReader element_reader(const ElementType& elements, DType stored, std::string place);

// Whether elements at an aligned address are values of that type already.
bool is_same_in_memory(const ElementType& elements, DType stored);

}  // namespace tasuki
