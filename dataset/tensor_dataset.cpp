#include "dataset/tensor_dataset.hpp"

#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "dataset/array_dataset.hpp"

namespace tasuki {
namespace {

Field field_of(const TensorField& given) {
  const Shape& shape = given.values.shape();
  if (!given.values || shape.rank() == 0 || !given.values.device().is_cpu() ||
      !given.values.is_plain())
    fail(ErrorKind::usage,
         "field '{}': expected a tensor of examples in host memory, found {} on {}", given.name,
         given.values ? shape.text() : "nothing", given.values.device().text());
  return field_in_memory(given.name, Shape(std::span(shape.begin() + 1, shape.end())),
                         given.values.dtype(), given.is_target, given.classes);
}

}  // namespace

TensorDataset::TensorDataset(std::vector<TensorField> fields) {
  for (TensorField& given : fields) {
    header_.fields.push_back(field_of(given));
    const std::int64_t count = given.values.shape()[0];
    if (values_.empty()) header_.count = count;
    if (count != header_.count)
      fail(ErrorKind::usage, "field '{}': expected {} examples, as many as in field '{}', found {}",
           given.name, header_.count, header_.fields[0].name, count);
    values_.push_back(std::move(given.values));
  }
  header_.check();
}

std::size_t TensorDataset::stored_bytes() const {
  std::size_t bytes = 0;
  for (const Tensor& values : values_) bytes += values.bytes();
  return bytes;
}

void TensorDataset::read(std::int64_t i, std::size_t field, FieldWriter& into) const {
  TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
  const std::span<std::byte> to = into.bytes();
  const auto* const from = static_cast<const std::byte*>(values_[field].raw());
  if (!to.empty())
    std::memcpy(to.data(), from + static_cast<std::size_t>(i) * to.size(), to.size());
}

FieldArray TensorDataset::array(std::size_t field) const {
  return {.values = static_cast<const std::byte*>(values_[field].raw())};
}

}  // namespace tasuki
