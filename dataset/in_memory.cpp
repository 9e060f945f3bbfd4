#include "tasuki/dataset/in_memory.hpp"

#include <cstring>
#include <numeric>

namespace tasuki {

InMemoryDataset::InMemoryDataset(const DatasetHeader& header)
    : header_(header),
      values_(static_cast<std::size_t>(header.count) * header.value_bytes()),
      labels_(static_cast<std::size_t>(header.count)),
      ids_(static_cast<std::size_t>(header.count)) {
  std::iota(ids_.begin(), ids_.end(), std::int64_t{0});
}

void InMemoryDataset::set(std::int64_t i, std::int64_t id, const std::byte* values,
                          std::int32_t label) {
  TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
  const auto at = static_cast<std::size_t>(i);
  ids_[at] = id;
  labels_[at] = label;
  const std::size_t bytes = header_.value_bytes();
  if (bytes > 0) std::memcpy(values_.data() + at * bytes, values, bytes);
}

std::size_t InMemoryDataset::stored_bytes() const {
  return values_.size() + labels_.size() * sizeof(labels_[0]) + ids_.size() * sizeof(ids_[0]);
}

const std::byte* InMemoryDataset::values_of(std::int64_t i) const {
  TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
  return values_.data() + static_cast<std::size_t>(i) * header_.value_bytes();
}

void InMemoryDataset::read_stored(std::span<const std::int64_t> indices, std::byte* values,
                                  std::int32_t* labels) const {
  const std::size_t bytes = header_.value_bytes();
  for (const std::int64_t i : indices) {
    const std::byte* source = values_of(i);
    if (bytes > 0) std::memcpy(values, source, bytes);
    values += bytes;
    *labels++ = labels_[static_cast<std::size_t>(i)];
  }
}

std::shared_ptr<InMemoryDataset> read_dataset(DataSource& source) {
  DatasetHeader header = source.header();
  header.encoded = false;
  auto dataset = std::make_shared<InMemoryDataset>(header);
  source.read(header.count, dataset->values_.data(), dataset->labels_.data());
  return dataset;
}

std::shared_ptr<InMemoryDataset> make_dataset(const Shape& example_shape, std::int64_t classes,
                                              std::span<const float> values,
                                              std::span<const std::int32_t> labels) {
  const DatasetHeader header{static_cast<std::int64_t>(labels.size()), example_shape, classes,
                             DType::float32};
  TASUKI_CHECK(values.size_bytes() == labels.size() * header.value_bytes(),
               "{} values for {} examples of shape {}", values.size(), labels.size(),
               example_shape.text());
  auto dataset = std::make_shared<InMemoryDataset>(header);
  const std::byte* next = std::as_bytes(values).data();
  for (std::size_t i = 0; i < labels.size(); ++i, next += header.value_bytes())
    dataset->set(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i), next, labels[i]);
  return dataset;
}

}  // namespace tasuki
