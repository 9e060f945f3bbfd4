#include "tasuki/dataset/numbers.hpp"

#include <cstring>

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

}  // namespace tasuki
