#include "core/hash.hpp"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <new>

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

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash_text(std::string_view text) {
  return hash_bytes(std::as_bytes(std::span(text.data(), text.size())));
}

RunningHash::RunningHash(std::uint64_t seed) : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  begin(seed);
}

void RunningHash::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

void RunningHash::begin(std::uint64_t seed) {
  XXH3_64bits_reset_withSeed(state_.get(), seed);
}

void RunningHash::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

std::uint64_t RunningHash::value() const {
  return XXH3_64bits_digest(state_.get());
}

void FileHash::add(std::span<const std::byte> bytes) {
  constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  while (!bytes.empty()) {
    const auto now = bytes.first(std::min(bytes.size(), piece_bytes - in_piece_));
    piece_.add(now);
    in_piece_ += now.size();
    bytes = bytes.subspan(now.size());
    if (in_piece_ < piece_bytes) continue;
    before_ = piece_.value();
    piece_.begin(before_);
    in_piece_ = 0;
  }
}

std::string hash_digits(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

std::optional<std::uint64_t> parse_hash(std::string_view digits) {
  std::uint64_t hash = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, hash, 16);
  if (error != std::errc() || rest != end || digits != hash_digits(hash)) return std::nullopt;
  return hash;
}

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
