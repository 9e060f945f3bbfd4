#include "dataset/field.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "communicator/number_bytes.hpp"
#include "core/printable.hpp"

namespace tasuki {
namespace {

bool can_decode(DType stored, DType decoded) {
  if (stored == decoded) return true;
  if (stored == DType::uint8)
    return decoded == DType::float32 || decoded == DType::int32 || decoded == DType::int64;
  return (stored == DType::float16 || stored == DType::float64) && decoded == DType::float32;
}

}  // namespace

std::size_t Field::stored_bytes() const {
  const std::int64_t values = is_ragged ? shape.count_per_item() : shape.count();
  return static_cast<std::size_t>(values) * size_of(stored);
}

Shape Field::batch_shape(std::int64_t examples, std::int64_t length) const {
  std::vector<std::int64_t> sizes{examples};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  if (is_ragged) sizes[1] = length;
  return Shape(sizes);
}

std::int64_t Field::padded_length(std::int64_t longest) const {
  return (longest + pad_to - 1) / pad_to * pad_to;
}

void Field::check() const {
  const auto refuse = [this](const std::string& problem) {
    fail(ErrorKind::usage, "field '{}': {}", name, problem);
  };
  if (name.empty()) fail(ErrorKind::usage, "a field has no name");
  if (!can_decode(stored, decoded))
    refuse(fmt::format("values stored as {} cannot be decoded to {}", name_of(stored),
                       name_of(decoded)));
  if (shape.rank() >= Shape::max_rank)
    refuse(fmt::format("expected at most {} axes in an example, found {}", Shape::max_rank - 1,
                       shape.rank()));
  if (is_ragged && shape.rank() == 0)
    refuse("a ragged field needs an axis whose length can differ");
  if (is_ragged && stored_bytes() == 0) refuse("the elements of a ragged field need a fixed size");
  if (pad_to < 1) refuse(fmt::format("expected pad_to of at least 1, found {}", pad_to));
  if (classes > 0 && decoded != DType::int32 && decoded != DType::int64)
    refuse(fmt::format("labels are int32 or int64, not {}", name_of(decoded)));
  if (ignored_label && decoded != DType::int32 && decoded != DType::int64)
    refuse(
        fmt::format("targets with an ignored label are int32 or int64, not {}", name_of(decoded)));
  if (ignored_label && is_ragged && padding != static_cast<double>(*ignored_label))
    refuse(fmt::format("expected padding with the ignored label {}, found {}", *ignored_label,
                       padding));
  if (is_image_file && (is_ragged || stored != DType::uint8 || shape.rank() != 3 || shape[0] != 3 ||
                        shape[1] != shape[2]))
    refuse(fmt::format("image files are decoded to 3 x side x side bytes, not to {} {}",
                       shape.text(), name_of(stored)));
}

void DatasetHeader::check() const {
  for (auto field = fields.begin(); field != fields.end(); ++field) {
    field->check();
    if (std::ranges::find(fields.begin(), field, field->name, &Field::name) != field)
      fail(ErrorKind::usage, "two fields are named '{}'", field->name);
  }
  if (std::ranges::count_if(fields,
                            [](const Field& field) { return field.ignored_label.has_value(); }) > 1)
    fail(ErrorKind::usage, "expected one field with an ignored label, found several");
}

std::size_t DatasetHeader::index_of(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, &Field::name);
  if (found != fields.end()) return static_cast<std::size_t>(found - fields.begin());
  std::vector<std::string> names;
  names.reserve(fields.size());
  for (const Field& field : fields) names.emplace_back(field.name);
  fail(ErrorKind::usage, "the data set has no field '{}'; its fields are: {}", name,
       names.empty() ? "none" : join(names, ", "));
}

bool DatasetHeader::has(std::string_view name) const {
  return std::ranges::find(fields, name, &Field::name) != fields.end();
}

std::size_t DatasetHeader::fixed_bytes() const {
  std::size_t bytes = 0;
  for (const Field& field : fields)
    if (!field.is_variable()) bytes += field.stored_bytes();
  return bytes;
}

std::string DatasetHeader::shape_text() const {
  std::vector<const Field*> inputs;
  for (const Field& field : fields)
    if (!field.is_target) inputs.push_back(&field);
  if (inputs.size() == 1) return inputs[0]->shape.text();
  std::string text;
  for (const Field* field : inputs)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", field->name, field->shape.text());
  return text;
}

DatasetHeader classification_header(std::int64_t count, const Shape& example, std::int64_t classes,
                                    DType stored) {
  return {count,
          {{.name = "x", .shape = example, .stored = stored},
           {.name = "t",
            .stored = DType::int32,
            .decoded = DType::int32,
            .is_target = true,
            .classes = classes}}};
}

std::vector<std::int64_t> encode_header(const DatasetHeader& header) {
  std::vector<std::int64_t> numbers{header.count, std::ssize(header.fields)};
  for (const Field& field : header.fields) {
    append_text(numbers, field.name);
    numbers.push_back(field.shape.rank());
    numbers.insert(numbers.end(), field.shape.begin(), field.shape.end());
    numbers.insert(
        numbers.end(),
        {static_cast<std::int64_t>(field.stored), static_cast<std::int64_t>(field.decoded),
         field.is_target, field.classes, field.is_ragged,
         std::bit_cast<std::int64_t>(field.padding), field.pad_to, field.is_image_file,
         field.ignores_exif, field.ignored_label.has_value(), field.ignored_label.value_or(0)});
  }
  return numbers;
}

DatasetHeader decode_header(std::span<const std::int64_t> numbers) {
  NumberReader reader(numbers);
  DatasetHeader header;
  header.count = reader.next();
  header.fields.resize(static_cast<std::size_t>(reader.next()));
  for (Field& field : header.fields) {
    field.name = reader.text();
    field.shape = Shape(reader.next(static_cast<std::size_t>(reader.next())));
    field.stored = static_cast<DType>(reader.next());
    field.decoded = static_cast<DType>(reader.next());
    field.is_target = reader.next() != 0;
    field.classes = reader.next();
    field.is_ragged = reader.next() != 0;
    field.padding = std::bit_cast<double>(reader.next());
    field.pad_to = reader.next();
    field.is_image_file = reader.next() != 0;
    field.ignores_exif = reader.next() != 0;
    const bool ignores = reader.next() != 0;
    if (const std::int64_t label = reader.next(); ignores) field.ignored_label = label;
  }
  return header;
}

FieldWriter::FieldWriter(const Field& field, std::vector<std::byte>& buffer)
    : field_(field), buffer_(buffer), begin_(buffer.size()) {
  if (!field.is_variable()) buffer_.resize(begin_ + field.stored_bytes());
}

void FieldWriter::resize(std::int64_t length) {
  TASUKI_CHECK(field_.is_variable() && length >= 0,
               "field '{}' was given length {}, but it is not ragged", field_.name, length);
  if (field_.is_ragged && field_.shape[0] > 0 && length > field_.shape[0])
    fail(ErrorKind::data, "field '{}': expected at most {} elements in an example, found {}",
         field_.name, field_.shape[0], length);
  const std::size_t each = field_.is_image_file ? 1 : field_.stored_bytes();
  buffer_.resize(begin_ + static_cast<std::size_t>(length) * each);
}

}  // namespace tasuki
