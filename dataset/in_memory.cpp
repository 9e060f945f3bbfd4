#include "dataset/in_memory.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "dataset/images/image_record.hpp"

namespace tasuki {

InMemoryDataset::InMemoryDataset(DatasetHeader header)
    : header_(std::move(header)),
      columns_(header_.fields.size()),
      ids_(static_cast<std::size_t>(header_.count)) {
  header_.check();
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Field& field = header_.fields[i];
    if (field.is_variable())
      columns_[i].examples.resize(ids_.size());
    else
      columns_[i].values.resize(ids_.size() * field.stored_bytes());
  }
  std::iota(ids_.begin(), ids_.end(), std::int64_t{0});
}

std::span<std::byte> InMemoryDataset::Pieces::take(std::size_t bytes) {
  constexpr std::size_t usual = 1 << 20;
  if (bytes > left_) {
    const std::size_t size = std::max(bytes, usual);
    pieces_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    if (size > usual) return {pieces_.back().get(), bytes};  // the previous piece has room left
    next_ = pieces_.back().get();
    left_ = size;
  }
  constexpr std::size_t alignment = alignof(std::int64_t);
  const std::size_t taken = std::min((bytes + alignment - 1) / alignment * alignment, left_);
  left_ -= taken;
  return {std::exchange(next_, next_ + taken), bytes};
}

void InMemoryDataset::set(std::int64_t i, std::int64_t id,
                          std::span<const std::span<const std::byte>> fields) {
  TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
  TASUKI_CHECK(fields.size() == columns_.size(), "{} fields of an example, expected {}",
               fields.size(), columns_.size());
  const auto at = static_cast<std::size_t>(i);
  ids_[at] = id;
  for (std::size_t number = 0; number < columns_.size(); ++number) {
    const std::span<const std::byte> from = fields[number];
    const std::size_t bytes = header_.fields[number].stored_bytes();
    std::span<std::byte> to;
    if (header_.fields[number].is_variable()) {
      to = columns_[number].pieces.take(from.size());
      columns_[number].examples[at] = to;
    } else {
      TASUKI_CHECK(from.size() == bytes, "field '{}' of an example has {} bytes, expected {}",
                   header_.fields[number].name, from.size(), bytes);
      to = std::span(columns_[number].values).subspan(at * bytes, bytes);
    }
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
  }
}

std::size_t InMemoryDataset::stored_bytes() const {
  std::size_t bytes = ids_.size() * sizeof(ids_[0]);
  for (const Column& column : columns_) {
    bytes += column.values.size() + std::span(column.examples).size_bytes();
    for (const auto& example : column.examples) bytes += example.size();
  }
  return bytes;
}

void InMemoryDataset::read(std::int64_t i, std::size_t number, FieldWriter& into) const {
  TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
  const Field& field = header_.fields[number];
  const Column& column = columns_[number];
  const auto at = static_cast<std::size_t>(i);
  const std::size_t bytes = field.stored_bytes();
  const std::span<const std::byte> from = field.is_variable()
                                              ? column.examples[at]
                                              : std::span(column.values).subspan(at * bytes, bytes);
  if (field.is_variable())
    into.resize(static_cast<std::int64_t>(from.size() / (field.is_image_file ? 1 : bytes)));
  std::ranges::copy(from, into.bytes().begin());
}

FieldArray InMemoryDataset::array(std::size_t field) const {
  const Column& column = columns_[field];
  if (header_.fields[field].is_variable()) return {.examples = column.examples.data()};
  return {.values = column.values.data()};
}

std::shared_ptr<InMemoryDataset> read_dataset(DataSource& source) {
  DatasetHeader header = source.header();
  for (Field& field : header.fields) field.is_image_file = false;
  auto dataset = std::make_shared<InMemoryDataset>(header);
  std::vector<std::vector<std::byte>> pixels(header.fields.size());
  std::vector<std::span<const std::byte>> example(header.fields.size());
  for (RecordBlock block; source.read_block(block);)
    for (std::int64_t i = 0; i < block.count; ++i) {
      for (std::size_t number = 0; number < example.size(); ++number) {
        const Field& field = source.header().fields[number];
        example[number] = block.at(number, i);
        if (!field.is_image_file) continue;
        pixels[number].resize(field.stored_bytes());
        decode_image_record(example[number], field, pixels[number].data());
        example[number] = pixels[number];
      }
      dataset->set(block.first + i, block.first + i, example);
    }
  return dataset;
}

std::shared_ptr<InMemoryDataset> make_dataset(const Shape& example_shape, std::int64_t classes,
                                              std::span<const float> values,
                                              std::span<const std::int32_t> labels) {
  const DatasetHeader header =
      classification_header(std::ssize(labels), example_shape, classes, DType::float32);
  const std::size_t bytes = header.field("x").stored_bytes();
  TASUKI_CHECK(values.size_bytes() == labels.size() * bytes,
               "{} values for {} examples of shape {}", values.size(), labels.size(),
               example_shape.text());
  auto dataset = std::make_shared<InMemoryDataset>(header);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span<const std::byte> example[] = {std::as_bytes(values).subspan(i * bytes, bytes),
                                                  std::as_bytes(labels.subspan(i, 1))};
    dataset->set(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i), example);
  }
  return dataset;
}

}  // namespace tasuki
