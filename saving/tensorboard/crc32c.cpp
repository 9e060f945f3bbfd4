#include "saving/tensorboard/crc32c.hpp"

#include <array>
#include <bit>

namespace tasuki {
namespace {

// The remainder of each byte, least significant bit first.
constexpr std::array<std::uint32_t, 256> make_remainders() {
  constexpr std::uint32_t reversed_polynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? reversed_polynomial : 0);
    table[byte] = remainder;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> remainders = make_remainders();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char c : bytes)
    crc = (crc >> 8) ^ remainders[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8;
}

}  // namespace tasuki
