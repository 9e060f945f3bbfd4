#include "core/siphash.hpp"

#include <bit>
#include <cstring>

namespace tasuki {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void take(std::uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t siphash(std::span<const std::byte> bytes, const SipKey& key) {
  SipState state{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                 key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  const std::uint64_t size = bytes.size();
  std::uint64_t word = 0;
  for (; bytes.size() >= sizeof word; bytes = bytes.subspan(sizeof word)) {
    std::memcpy(&word, bytes.data(), sizeof word);
    state.take(word);
  }
  word = 0;
  if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
  state.take(word | size << 56);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace tasuki
