#include "core/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <charconv>
#include <new>

namespace tasuki {

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

}  // namespace tasuki
