// FileArray: an array in an opened file of any format; dataset_of() makes a data set of
// several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "array_files/array_fields.hpp"
#include "array_files/element_type.hpp"
#include "dataset/dataset.hpp"

namespace tasuki {

// Finds or reads rows (items along axis 0) of an array that is not one piece of memory; several
// threads at once may.
class RowReader {
 public:
  virtual ~RowReader() = default;
  // These rows, in any order, as they are in the file. Damage is an error of kind data that names
  // the array.
  virtual LocatedExamples locate(std::span<const std::int64_t> rows) const = 0;
};

struct FileArray {
  std::string place;  // for messages: "/images in run.h5"
  ElementType type = {};
  std::vector<std::int64_t> sizes = {};  // of its axes, in row-major order
  // All elements in memory, as in the file, ...
  const std::byte* elements = nullptr;
  std::shared_ptr<const void> owner = {};  // of that memory
  // ... or what reads them.
  std::shared_ptr<const RowReader> reader = {};
};

// Whether an array of these sizes and type fits into what a program can address: at most 2^48
// elements. Files may claim anything.
bool is_possible(std::span<const std::int64_t> sizes);

// `arrays[i]` has the values of `fields[i]`. Errors of kind data name the field and the array: no
// axis of examples, another number of examples than in the first field, a type or a number of
// values that does not fit.
std::shared_ptr<const Dataset> dataset_of(const std::vector<ArrayFileField>& fields,
                                          std::vector<FileArray> arrays);

}  // namespace tasuki
