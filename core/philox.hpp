// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). A number is a pure function of (seed, stream, counter), so that what is drawn
// for an example, an epoch or a parameter never depends on ranks, threads or the order of calls.
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

// A word in [0, 2^32) as a float in [0, 1): 24 bits, so that no value rounds up to 1.
constexpr float unit_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

// A sequence of numbers for one purpose: `seed` is the run's, `stream` names the purpose (hash of a
// parameter's path, or epoch and shard mixed by `mix`).
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed, std::uint64_t stream = 0)
      : seed_(seed), stream_(stream) {}

  std::uint32_t next();
  // Uniform in [0, bound) without bias (Lemire, "Fast random integer generation in an interval").
  std::uint64_t below(std::uint64_t bound);
  float uniform() { return unit_float(next()); }
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
std::uint64_t mix(std::span<const std::uint64_t> values);

// A permutation of 0 .. n-1 (Fisher and Yates).
std::vector<std::int64_t> permutation(std::int64_t n, RandomStream stream);

}  // namespace tasuki
