#include "array_files/file_array.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.hpp"

namespace tasuki {
namespace {

Field field_of(const ArrayFileField& asked, const FileArray& array) {
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    fail(ErrorKind::data, "field '{}': {}: expected {}, found {}", asked.name, array.place,
         expected, found);
  };
  if (array.sizes.empty()) refuse("an array whose axis 0 numbers the examples", "a single number");
  if (array.sizes.size() > Shape::max_rank)
    refuse(fmt::format("at most {} axes", int{Shape::max_rank}),
           std::to_string(array.sizes.size()));
  if (!is_possible(array.sizes)) refuse("an array that can be addressed", "impossible sizes");
  Shape example(std::span(array.sizes).subspan(1));
  if (asked.example && asked.example->count() != example.count())
    refuse(fmt::format("examples of shape {}, or of another with {} values", asked.example->text(),
                       asked.example->count()),
           fmt::format("shape {}", example.text()));
  const auto types = field_types(array.type, asked.type, asked.classes > 0);
  if (!types)
    refuse(asked.classes > 0 ? "labels, which are whole numbers"
                             : fmt::format("numbers for {}", name_of(*asked.type)),
           array.type.name());
  return {.name = asked.name,
          .shape = asked.example.value_or(example),
          .stored = types->stored,
          .decoded = types->decoded,
          .is_target = asked.is_target,
          .classes = asked.classes};
}

// `bytes`: a power of 2.
bool is_aligned(const std::byte* place, std::size_t bytes) {
  return (reinterpret_cast<std::uintptr_t>(place) & (bytes - 1)) == 0;
}

class ArrayFileDataset final : public Dataset {
 public:
  ArrayFileDataset(const std::vector<ArrayFileField>& fields, std::vector<FileArray> arrays) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const Field field = field_of(fields[i], arrays[i]);
      const std::int64_t count = arrays[i].sizes[0];
      if (i == 0) header_.count = count;
      if (count != header_.count)
        fail(ErrorKind::data, "field '{}': {}: expected {} examples, as many as in {}, found {}",
             fields[i].name, arrays[i].place, header_.count, columns_[0].array.place, count);
      header_.fields.push_back(field);
      columns_.push_back(column_of(std::move(arrays[i]), field));
    }
    header_.check();
  }

  const DatasetHeader& header() const override { return header_; }
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override {
    const LocatedExamples one = stored_examples({&i, 1}, field);
    std::memcpy(into.bytes().data(), one.places[0], into.bytes().size());
  }
  FieldArray array(std::size_t field) const override { return {.values = columns_[field].values}; }
  LocatedExamples locate(std::span<const std::int64_t> examples, std::size_t field) const override {
    // What is one piece of memory is read there (array()).
    return columns_[field].values != nullptr ? LocatedExamples() : stored_examples(examples, field);
  }

 private:
  struct Column {
    FileArray array;
    std::int64_t row_bytes;
    bool is_same;             // elements are values as stored
    std::size_t alignment;    // that values need to be decoded
    const std::byte* values;  // if they are one piece of memory
    ElementReader convert;
  };

  static Column column_of(FileArray array, const Field& field) {
    const bool is_same = is_same_in_memory(array.type, field.stored);
    // Decoding to the same type copies bytes.
    const std::size_t alignment = field.stored == field.decoded ? 1 : size_of(field.stored);
    const bool is_in_place = is_same && is_aligned(array.elements, alignment);
    ElementReader convert = element_reader(array.type, field.stored, array.place);
    const std::byte* const values = is_in_place ? array.elements : nullptr;
    const std::int64_t row_bytes = field.shape.count() * array.type.bytes;
    return {std::move(array), row_bytes, is_same, alignment, values, std::move(convert)};
  }

  LocatedExamples stored_examples(std::span<const std::int64_t> examples,
                                  std::size_t number) const {
    const Column& column = columns_[number];
    for (const std::int64_t i : examples)
      TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
    LocatedExamples found;
    if (column.array.elements != nullptr)
      for (const std::int64_t i : examples)
        found.places.push_back(column.array.elements + i * column.row_bytes);
    else
      found = column.array.reader->locate(examples);
    const auto is_usable = [&](const std::byte* place) {
      return is_aligned(place, column.alignment);
    };
    if (column.is_same && std::ranges::all_of(found.places, is_usable)) return found;
    return converted(std::move(found), column, header_.fields[number]);
  }

  // In memory of their own.
  static LocatedExamples converted(LocatedExamples found, const Column& column,
                                   const Field& field) {
    const std::size_t each = field.stored_bytes();
    const auto values = std::make_shared_for_overwrite<std::byte[]>(found.places.size() * each);
    std::byte* to = values.get();
    for (const std::byte*& place : found.places) {
      column.convert(place, to, field.shape.count());
      place = to;
      to += each;
    }
    found.owners = {values};
    return found;
  }

  DatasetHeader header_;
  std::vector<Column> columns_;
};

}  // namespace

bool is_possible(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  return std::ranges::all_of(sizes, [&](std::int64_t size) {
    // An empty axis does not make the others possible.
    return size >= 0 && !__builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count) &&
           count <= (std::int64_t{1} << 48);
  });
}

std::shared_ptr<const Dataset> dataset_of(const std::vector<ArrayFileField>& fields,
                                          std::vector<FileArray> arrays) {
  TASUKI_CHECK(!fields.empty() && fields.size() == arrays.size(), "{} arrays for {} fields",
               arrays.size(), fields.size());
  return std::make_shared<ArrayFileDataset>(fields, std::move(arrays));
}

}  // namespace tasuki
