#include "dataset/array_dataset.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "tensor/cpu/strided.hpp"

namespace tasuki {

Field field_in_memory(const std::string& name, const Shape& example, DType stored, bool is_target,
                      std::int64_t classes) {
  const bool is_coded =
      stored == DType::uint8 || stored == DType::float16 || stored == DType::float64;
  return {.name = name,
          .shape = example,
          .stored = stored,
          .decoded = is_coded ? DType::float32 : stored,
          .is_target = is_target,
          .classes = classes};
}

ArrayDataset::ArrayDataset(const std::vector<ArrayField>& fields) {
  for (const ArrayField& given : fields) {
    const Shape& shape = given.values.shape;
    if (given.example_axes < 1 || given.example_axes > shape.rank() ||
        (given.values.data == nullptr && shape.count() > 0))
      fail(ErrorKind::usage, "field '{}': expected an array with {} axes of examples, found {}",
           given.name, given.example_axes,
           given.values.data == nullptr ? "no memory" : "shape " + shape.text());
    const auto axes = static_cast<std::size_t>(given.example_axes);
    const std::span sizes(shape.begin(), shape.end());
    const Shape numbering(sizes.first(axes)), example(sizes.subspan(axes));
    if (walks_.empty()) header_.count = numbering.count();
    if (numbering.count() != header_.count)
      fail(ErrorKind::usage, "field '{}': expected {} examples, as many as in field '{}', found {}",
           given.name, header_.count, header_.fields[0].name, numbering.count());
    header_.fields.push_back(
        field_in_memory(given.name, example, given.values.dtype, given.is_target, given.classes));
    Strides between{}, within{};
    const auto middle = given.values.strides.begin() + given.example_axes;
    std::copy(given.values.strides.begin(), middle, between.begin());
    std::copy(middle, given.values.strides.end(), within.begin());
    walks_.push_back({static_cast<const std::byte*>(given.values.data),
                      {numbering, {between}},
                      {example, {within}},
                      given.values.is_plain()});
  }
  header_.check();
}

void ArrayDataset::read(std::int64_t i, std::size_t field, FieldWriter& into) const {
  TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
  const Walks& walks = walks_[field];
  const Field& described = header_.fields[field];
  const std::size_t element = size_of(described.stored);
  const std::int64_t first = StridedPosition<1>(walks.examples, i).offset(0);
  gather_bytes(walks.elements, walks.data + first * static_cast<std::int64_t>(element), element, 0,
               described.shape.count(), into.bytes().data());
}

FieldArray ArrayDataset::array(std::size_t field) const {
  return {.values = walks_[field].is_plain ? walks_[field].data : nullptr};
}

}  // namespace tasuki
