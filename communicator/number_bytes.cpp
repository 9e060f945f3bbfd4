#include "communicator/number_bytes.hpp"

#include <cstring>

#include "core/error.hpp"

namespace tasuki {

Bytes encode_numbers(std::span<const std::int64_t> numbers) {
  const auto bytes = std::as_bytes(numbers);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::int64_t> decode_numbers(std::span<const std::byte> bytes) {
  std::vector<std::int64_t> numbers(bytes.size() / sizeof(std::int64_t));
  TASUKI_CHECK(numbers.size() * sizeof(std::int64_t) == bytes.size(), "{} bytes of numbers",
               bytes.size());
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

void append_text(std::vector<std::int64_t>& numbers, std::string_view text) {
  numbers.push_back(std::ssize(text));
  numbers.insert(numbers.end(), text.begin(), text.end());
}

std::span<const std::int64_t> NumberReader::next(std::size_t count) {
  TASUKI_CHECK(count <= rest_.size(), "{} numbers expected in a message, {} left", count,
               rest_.size());
  const auto taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

std::string NumberReader::text() {
  std::string text;
  for (const std::int64_t letter : next(static_cast<std::size_t>(next())))
    text += static_cast<char>(letter);
  return text;
}

}  // namespace tasuki
