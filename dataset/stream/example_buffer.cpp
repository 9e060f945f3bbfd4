#include "dataset/stream/example_buffer.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "core/error.hpp"
#include "core/philox.hpp"

namespace tasuki {

std::string text_of(std::span<const Field> fields) {
  std::string text;
  for (const Field& field : fields)
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", field.name, field.shape.text(),
                        name_of(field.stored));
  return text;
}

ExampleBuffer::ExampleBuffer(std::vector<Field> fields, std::int64_t capacity)
    : header_{0, std::move(fields)}, capacity_(capacity) {
  if (capacity < 1)
    fail(ErrorKind::usage, "a stream: expected room for at least 1 example, found {}", capacity);
  header_.check();
  for (const Field& field : header_.fields) {
    if (field.is_variable())
      fail(ErrorKind::usage,
           "a stream: field '{}' has examples of different sizes; pad them to one size",
           field.name);
    columns_.push_back(std::make_unique_for_overwrite<std::byte[]>(
        static_cast<std::size_t>(capacity * static_cast<std::int64_t>(field.stored_bytes()))));
  }
  is_used_.resize(static_cast<std::size_t>(capacity));
}

void ExampleBuffer::add(std::span<const std::byte> columns, std::int64_t count, Range part) {
  TASUKI_CHECK(columns.size() == static_cast<std::size_t>(count) * header_.fixed_bytes(),
               "{} bytes for {} examples", columns.size(), count);
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    const std::int64_t place = counts_.arrived % capacity_;
    const auto index = static_cast<std::size_t>(place);
    if (counts_.arrived >= capacity_ && !is_used_[index]) ++counts_.dropped;
    is_used_[index] = false;
    std::size_t column = 0;
    for (std::size_t field = 0; field < columns_.size(); ++field) {
      const std::size_t bytes = header_.fields[field].stored_bytes();
      if (bytes > 0)
        std::memcpy(columns_[field].get() + index * bytes,
                    columns.data() + column + static_cast<std::size_t>(i) * bytes, bytes);
      column += static_cast<std::size_t>(count) * bytes;
    }
    ++counts_.arrived;
  }
  header_.count = std::min(counts_.arrived, capacity_);
  next_ = std::max(next_, counts_.arrived - capacity_);
}

void ExampleBuffer::use(std::int64_t place) {
  const auto index = static_cast<std::size_t>(place);
  ++counts_.used;
  if (is_used_[index]) ++counts_.repeated;
  is_used_[index] = true;
}

std::vector<std::int64_t> ExampleBuffer::take_oldest(std::int64_t count) {
  std::vector<std::int64_t> places;
  for (; std::ssize(places) < count && next_ < counts_.arrived; ++next_) {
    places.push_back(next_ % capacity_);
    use(places.back());
  }
  return places;
}

// Floyd's algorithm: a set of `count` from `held`, in a draw each (Bentley and Floyd, CACM 30(9)).
std::vector<std::int64_t> ExampleBuffer::take_any(std::int64_t count, std::uint64_t seed,
                                                  std::uint64_t stream) {
  RandomStream random(seed, stream);
  std::vector<std::int64_t> places;
  std::unordered_set<std::int64_t> chosen;
  for (std::int64_t last = std::max<std::int64_t>(held() - count, 0); last < held(); ++last) {
    auto place = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(last) + 1));
    if (!chosen.insert(place).second) chosen.insert(place = last);
    places.push_back(place);
    use(place);
  }
  return places;
}

std::size_t ExampleBuffer::stored_bytes() const {
  return static_cast<std::size_t>(capacity_) * header_.fixed_bytes();
}

std::int64_t ExampleBuffer::id(std::int64_t place) const {
  const std::int64_t newest = counts_.arrived - 1;
  return newest - (newest - place) % capacity_;
}

void ExampleBuffer::read(std::int64_t place, std::size_t field, FieldWriter& into) const {
  const std::span<std::byte> to = into.bytes();
  if (!to.empty())
    std::memcpy(to.data(), columns_[field].get() + static_cast<std::size_t>(place) * to.size(),
                to.size());
}

void append_columns(const Dataset& examples, std::int64_t begin, std::int64_t end,
                    std::vector<std::byte>& columns) {
  for (std::size_t number = 0; number < examples.header().fields.size(); ++number) {
    const Field& field = examples.header().fields[number];
    const FieldArray array = examples.array(number);
    const std::size_t bytes = field.stored_bytes();
    if (array.values != nullptr && array.rows == nullptr) {
      const std::byte* const first = array.values + static_cast<std::size_t>(begin) * bytes;
      columns.insert(columns.end(), first, first + static_cast<std::size_t>(end - begin) * bytes);
      continue;
    }
    for (std::int64_t i = begin; i < end; ++i) {
      FieldWriter writer(field, columns);
      try {
        examples.read(i, number, writer);
      } catch (const Error& error) {
        rethrow_of_example(error, examples.id(i));
      }
    }
  }
}

void check_stream_fields(const Dataset& examples, std::span<const Field> fields, const char* who) {
  const std::vector<Field>& found = examples.header().fields;
  const bool fits = std::ranges::equal(fields, found, [](const Field& a, const Field& b) {
    return a.name == b.name && a.shape == b.shape && a.stored == b.stored && !b.is_variable();
  });
  if (!fits)
    fail(ErrorKind::usage, "{}: expected examples with the stream's fields ({}), found ({})", who,
         text_of(fields), text_of(found));
}

}  // namespace tasuki
