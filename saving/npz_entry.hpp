// NpzEntry: a named array or text, as NPZ files (npz.hpp) and serializers hold it. Not in npz.hpp,
// because its <filesystem> costs compile time in every header that includes serializer.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "tensor/tensor.hpp"

namespace tasuki {

// An array, or a text of any bytes (NumPy's 0-d unicode array; see to_utf8()). Zeros that end a
// text are lost.
using NpzValue = std::variant<Tensor, std::string>;

struct NpzEntry {
  std::string name;  // without ".npy"
  NpzValue value;
};

// Elements [begin, begin + entry's length) of an array of another shape.
struct NpzPiece {
  NpzEntry entry;  // one axis
  std::int64_t begin = 0;
  Shape whole;
};

}  // namespace tasuki
