#include "core/utf8.hpp"

#include <algorithm>

namespace tasuki {
namespace {

constexpr char32_t replacement = 0xfffd;

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// The range of a character's second byte depends on the first, so that no character has two forms,
// is half of a surrogate pair or is beyond U+10FFFF (Unicode, table 3-7).
struct SecondByte {
  unsigned char least = 0x80, most = 0xbf;
};

SecondByte second_byte(unsigned char first) {
  if (first == 0xe0) return {.least = 0xa0};
  if (first == 0xed) return {.most = 0x9f};
  if (first == 0xf0) return {.least = 0x90};
  if (first == 0xf4) return {.most = 0x8f};
  return {};
}

// U+10FF80 to U+10FFFF are f4 8f be 80 to f4 8f bf bf.
constexpr std::string_view lower_half = "\xf4\x8f\xbe", upper_half = "\xf4\x8f\xbf";

bool stands_for_byte(std::string_view text) {
  return (text.starts_with(lower_half) || text.starts_with(upper_half)) && utf8_length(text) == 4;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const unsigned char first = byte_at(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < length) return 0;
  const SecondByte second = second_byte(first);
  if (byte_at(text, 1) < second.least || byte_at(text, 1) > second.most) return 0;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return std::ranges::all_of(text.substr(2, length - 2), continues) ? length : 0;
}

std::string to_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = stands_for_byte(bytes) ? 0 : utf8_length(bytes);
    if (length > 0) {
      text += bytes.substr(0, length);
    } else {
      const unsigned char byte = byte_at(bytes, 0);
      text += byte < 0xc0 ? lower_half : upper_half;
      text += static_cast<char>(0x80 | (byte & 0x3f));
    }
    bytes.remove_prefix(std::max<std::size_t>(1, length));
  }
  return text;
}

std::string from_utf8(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    if (stands_for_byte(text)) {
      bytes += static_cast<char>((text.starts_with(lower_half) ? 0x80 : 0xc0) |
                                 (byte_at(text, 3) & 0x3f));
      text.remove_prefix(4);
    } else {
      bytes += text.front();
      text.remove_prefix(1);
    }
  }
  return bytes;
}

std::u32string characters_of(std::string_view text) {
  std::u32string characters;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    char32_t character = replacement;
    if (length > 0) {
      // The first byte of a character of n > 1 bytes begins with n ones and a zero.
      character = length == 1 ? byte_at(text, 0) : byte_at(text, 0) & (0x7fU >> length);
      for (std::size_t i = 1; i < length; ++i)
        character = character << 6 | (byte_at(text, i) & 0x3fU);
    }
    characters += character;
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return characters;
}

std::string text_of(std::u32string_view characters) {
  std::string text;
  for (char32_t each : characters) {
    if ((each >= 0xd800 && each < 0xe000) || each > 0x10ffff) each = replacement;
    if (each < 0x80) {
      text += static_cast<char>(each);
      continue;
    }
    const int length = each < 0x800 ? 2 : each < 0x10000 ? 3 : 4;
    const auto ones = static_cast<unsigned>(0xf00 >> length) & 0xff;
    text += static_cast<char>(ones | each >> 6 * (length - 1));
    for (int i = length - 2; i >= 0; --i) text += static_cast<char>(0x80 | (each >> 6 * i & 0x3f));
  }
  return text;
}

}  // namespace tasuki
