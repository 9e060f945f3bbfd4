// Converts numbers to bytes for sending, and back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/bytes.hpp"

namespace tasuki {

Bytes encode_numbers(std::span<const std::int64_t> numbers);
std::vector<std::int64_t> decode_numbers(std::span<const std::byte> bytes);

// Appends a text as numbers: its length and its characters.
void append_text(std::vector<std::int64_t>& numbers, std::string_view text);

// Reads numbers one after another. Reading beyond the end is an error of kind internal.
class NumberReader {
 public:
  explicit NumberReader(std::span<const std::int64_t> numbers) : rest_(numbers) {}
  std::int64_t next() { return next(1)[0]; }
  std::span<const std::int64_t> next(std::size_t count);
  std::string text();  // appended by append_text()
  std::span<const std::int64_t> rest() const { return rest_; }

 private:
  std::span<const std::int64_t> rest_;
};

}  // namespace tasuki
