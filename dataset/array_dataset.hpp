// ArrayDataset: examples that lie in the program's memory in any order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataset/dataset.hpp"
#include "tensor/program_array.hpp"

namespace tasuki {

// One field of all examples.
struct ArrayField {
  std::string name;
  // (examples) x (shape of an example).
  ProgramArray values;
  // How many of its first axes number the examples, the last of them fastest.
  int example_axes = 1;
  bool is_target = false;
  std::int64_t classes = 0;  // of labels, which are int32 or int64
};

// Examples are read when a batch of them is made, from where they lie, so a batch has the values
// that the memory holds then. The memory must outlive the data set and stay as it is while an
// example is read. The 8 x 8 cells around each cell of a field with 4 ghost cells on each side, and
// the cell itself:
//   const std::int64_t row = columns + 8;
//   ArrayDataset data({{"x", {u, {rows, columns, 8, 8}, {row, 1, row, 1}}, 2},
//                      {"t", {u + 4 * row + 4, {rows, columns}, {row, 1}}, 2, true}});
// In batches, types are converted as TensorDataset does.
class ArrayDataset final : public Dataset {
 public:
  // A usage error if the fields differ in their number of examples.
  explicit ArrayDataset(const std::vector<ArrayField>& fields);

  const DatasetHeader& header() const override { return header_; }
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override;
  FieldArray array(std::size_t field) const override;

 private:
  // A field as two walks: over the first elements of all examples, and over one example.
  struct Walks {
    const std::byte* data;
    StridedLoop<1> examples, elements;
    bool is_plain;
  };
  DatasetHeader header_;
  std::vector<Walks> walks_;
};

// The field of a data set in memory whose examples have this shape and type. In batches, uint8
// becomes value / 255, and float16 and float64 become float32; other types stay as they are.
Field field_in_memory(const std::string& name, const Shape& example, DType stored, bool is_target,
                      std::int64_t classes);

}  // namespace tasuki
