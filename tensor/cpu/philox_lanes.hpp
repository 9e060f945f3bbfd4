// Philox4x32-10 (core/philox.hpp) for 32 blocks at once, inlined into loops under TASUKI_VECTORIZE.
#pragma once

#include <cstdint>

namespace tasuki {

// Blocks of four numbers that are drawn together; loops over fewer would be unrolled, not
// vectorised.
inline constexpr std::int64_t philox_lanes = 32;

// Words w of the blocks with the counters {block + lane, 0, example}: words[w][lane].
[[gnu::always_inline]] inline void draw_philox(std::uint32_t (&words)[4][philox_lanes],
                                               std::uint32_t block, std::uint64_t seed,
                                               std::uint64_t example) {
  auto& [c0, c1, c2, c3] = words;
  for (std::int64_t lane = 0; lane < philox_lanes; ++lane) {
    c0[lane] = block + static_cast<std::uint32_t>(lane);
    c1[lane] = 0;
    c2[lane] = static_cast<std::uint32_t>(example);
    c3[lane] = static_cast<std::uint32_t>(example >> 32);
  }
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (std::int64_t lane = 0; lane < philox_lanes; ++lane) {
      const std::uint64_t a = std::uint64_t{0xD2511F53u} * c0[lane];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * c2[lane];
      c0[lane] = static_cast<std::uint32_t>(b >> 32) ^ c1[lane] ^ k0;
      c1[lane] = static_cast<std::uint32_t>(b);
      c2[lane] = static_cast<std::uint32_t>(a >> 32) ^ c3[lane] ^ k1;
      c3[lane] = static_cast<std::uint32_t>(a);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

}  // namespace tasuki
