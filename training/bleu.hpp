// BLEU of translations (Papineni et al., "BLEU: a method for automatic evaluation of machine
// translation", ACL 2002), over a whole corpus with one reference for each sentence.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace tasuki {

// Counts that add up over sentences and ranks.
struct BleuCounts {
  static constexpr std::size_t orders = 4;  // n-grams of 1 to 4 words
  std::array<std::int64_t, orders> matches{}, candidates{};
  std::int64_t length = 0, reference_length = 0;  // words

  // N-grams of `translation`, and how many of them match: each at most as often as `reference` has
  // it.
  void add(std::span<const std::int32_t> translation, std::span<const std::int32_t> reference);
  void add(const BleuCounts& other);

  // exp(mean over n of ln(matches / candidates)) times the brevity penalty min(1, exp(1 -
  // reference_length / length)), from 0 to 1. Orders without a match count as 0.1 matches
  // (sacreBLEU's smoothing "floor", NLTK's method 1), without candidates as one candidate; 0 if no
  // word matches. NLTK, which ChainerMN's example uses, also counts at least one n-gram of each
  // order in each sentence, so that exact translations of fewer than four words do not reach 1
  // there.
  double value() const;
};

}  // namespace tasuki
