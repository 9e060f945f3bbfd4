// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). A number is a pure function of (seed, stream, counter), so that the numbers for
// an example, an epoch or a parameter never depend on ranks, threads or the order of calls.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tasuki {

// One block of four 32-bit words for a 64-bit key and a 128-bit counter.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key,
                                              std::array<std::uint32_t, 4> counter) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ull * counter[0], b = 0xCD9E8D57ull * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1,
               static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

// A word in [0, 2^32) as a float in [0, 1), from 24 bits, so that no value rounds up to 1.
constexpr float unit_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

// A sequence of numbers for one purpose: `seed` is the run's, `stream` identifies the purpose (hash
// of a parameter's path, or epoch and shard mixed by `mix`). constexpr functions also run in
// kernels.
class RandomStream {
 public:
  constexpr explicit RandomStream(std::uint64_t seed, std::uint64_t stream = 0)
      : seed_(seed), stream_(stream) {}

  constexpr std::uint32_t next() {
    if (used_ == 4) {
      words_ = philox(
          seed_, {static_cast<std::uint32_t>(block_), static_cast<std::uint32_t>(block_ >> 32),
                  static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)});
      ++block_;
      used_ = 0;
    }
    return words_[static_cast<std::size_t>(used_++)];
  }
  // Uniform in [0, bound) without bias (Lemire, "Fast random integer generation in an interval").
  constexpr std::uint64_t below(std::uint64_t bound) {
    // Products of a 64-bit word: the high half is the result; a low half below the threshold would
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
  constexpr float uniform() { return unit_float(next()); }
  // Standard normal values (Box and Muller).
  float normal();

 private:
  std::uint64_t seed_, stream_, block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  int used_ = 4;
  float spare_ = 0;
  bool has_spare_ = false;
};

// Mixes several small numbers into one stream number (SplitMix64 steps).
constexpr std::uint64_t mix(std::span<const std::uint64_t> values) {
  std::uint64_t state = 0x243F6A8885A308D3ull;
  for (const std::uint64_t value : values) {
    std::uint64_t z = (state ^= value) + 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    state = z ^ (z >> 31);
  }
  return state;
}

// A permutation of 0 .. n-1 (Fisher and Yates).
std::vector<std::int64_t> permutation(std::int64_t n, RandomStream stream);

}  // namespace tasuki
