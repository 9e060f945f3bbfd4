// TensorDataset: values in a program's memory as a data set.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataset/dataset.hpp"

namespace tasuki {

// One field of all examples.
struct TensorField {
  std::string name;
  Tensor values;  // N x (shape of an example), in host memory
  bool is_target = false;
  std::int64_t classes = 0;  // of labels, which are int32 or int64
};

// A field from a vector of numbers: N x (example), or one number each.
template <class T>
TensorField vector_field(std::string name, const std::vector<T>& values,
                         const Shape& example = {}) {
  const std::int64_t each = example.count();
  const Field field{.name = name, .shape = example};
  TASUKI_CHECK(each > 0 && std::ssize(values) % each == 0,
               "field '{}': {} values cannot be examples of shape {}", name, values.size(),
               example.text());
  return {std::move(name),
          Tensor::from(std::span<const T>(values), field.batch_shape(std::ssize(values) / each))};
}

// Shares the tensors' memory:
//   TensorDataset data({{"x", x}, {"t", prices, /*is_target=*/true}});
// In batches, uint8 becomes value / 255, and float16 and float64 become float32; other types stay
// as they are.
class TensorDataset final : public Dataset {
 public:
  // A usage error if the fields differ in their number of examples.
  explicit TensorDataset(std::vector<TensorField> fields);

  const DatasetHeader& header() const override { return header_; }
  std::size_t stored_bytes() const override;
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override;
  FieldArray array(std::size_t field) const override;

 private:
  DatasetHeader header_;
  std::vector<Tensor> values_;
};

}  // namespace tasuki
