#include "tasuki/core/philox.hpp"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace tasuki {

std::uint32_t RandomStream::next() {
  if (used_ == 4) {
    words_ = philox(
        seed_, {static_cast<std::uint32_t>(block_), static_cast<std::uint32_t>(block_ >> 32),
                static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)});
    ++block_;
    used_ = 0;
  }
  return words_[static_cast<std::size_t>(used_++)];
}

std::uint64_t RandomStream::below(std::uint64_t bound) {
  // Products of a 64-bit word: the high half is the answer, a low half under the threshold would
  // be drawn too often.
  const std::uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t low_word = next();
    const std::uint64_t word = low_word | static_cast<std::uint64_t>(next()) << 32;
    const auto product = static_cast<unsigned __int128>(word) * bound;
    if (static_cast<std::uint64_t>(product) >= threshold)
      return static_cast<std::uint64_t>(product >> 64);
  }
}

float RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  // (0, 1], so that the logarithm is finite.
  const double u = 1.0 - static_cast<double>(uniform());
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(uniform());
  const double radius = std::sqrt(-2.0 * std::log(u));
  spare_ = static_cast<float>(radius * std::sin(angle));
  has_spare_ = true;
  return static_cast<float>(radius * std::cos(angle));
}

std::uint64_t mix(std::span<const std::uint64_t> values) {
  std::uint64_t state = 0x243F6A8885A308D3ull;
  for (const std::uint64_t value : values) {
    std::uint64_t z = (state ^= value) + 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    state = z ^ (z >> 31);
  }
  return state;
}

std::vector<std::int64_t> permutation(std::int64_t n, RandomStream stream) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i)]);
  return order;
}

}  // namespace tasuki
