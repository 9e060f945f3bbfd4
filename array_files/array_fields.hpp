// Fields of a data set whose values are arrays in files (npy_dataset.hpp, hdf5_dataset.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace tasuki {

// A field and the array with its values: axis 0 numbers the examples.
struct ArrayFileField {
  std::string name;   // of the field: "x"
  std::string array;  // "x.npy" (a file in a folder), "x" (a member of an NPZ file), "/images"
  bool is_target = false;
  std::int64_t classes = 0;  // of labels, which are whole numbers and int32 in batches
  // The type in batches: float32, int32 or int64. By default int32 for labels; float32 for floating
  // types, bool and integers of 8 and 16 bits (uint8 as value / 255, as images are); int32 and
  // int64 as they are, uint32 and uint64 as int64.
  std::optional<DType> type = {};
  // The shape of an example, if it is not the array's: another one with as many values.
  std::optional<Shape> example = {};
};

// "x=/images,t=/labels" as pairs of field and array. A usage error names `flag`, what was expected
// and what was found.
std::vector<ArrayFileField> parse_array_fields(std::string_view flag, std::string_view text);

}  // namespace tasuki
