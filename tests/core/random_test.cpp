#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "core/philox.hpp"

namespace tasuki {
namespace {

// Known answers of the authors' Random123 library (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, MatchesKnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, {~0u, ~0u, ~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0'a4093822ull, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UnitFloatStaysBelowOne) {
  EXPECT_EQ(unit_float(0), 0.0f);
  EXPECT_LT(unit_float(~0u), 1.0f);
}

TEST(RandomStream, DependsOnlyOnSeedAndStream) {
  RandomStream a(1, 2), same(1, 2), other_seed(2, 2), other_stream(1, 3);
  const auto draw = [](RandomStream& stream) {
    std::vector<std::uint32_t> words;
    for (int i = 0; i < 9; ++i) words.push_back(stream.next());
    return words;
  };
  const auto words = draw(a);
  EXPECT_EQ(words, draw(same));
  EXPECT_NE(words, draw(other_seed));
  EXPECT_NE(words, draw(other_stream));
  EXPECT_EQ(std::set(words.begin(), words.end()).size(), words.size()) << "blocks repeat";
}

TEST(RandomStream, BelowIsUniform) {
  RandomStream stream(5);
  std::array<int, 6> seen{};
  constexpr int draws = 60000;
  for (int i = 0; i < draws; ++i) {
    const std::uint64_t value = stream.below(6);
    ASSERT_LT(value, 6u);
    ++seen[value];
  }
  // 10,000 expected each, standard deviation 91.
  for (const int count : seen) EXPECT_NEAR(count, draws / 6.0, 500);
  EXPECT_EQ(stream.below(1), 0u);
}

TEST(RandomStream, NormalHasCorrectMoments) {
  RandomStream stream(7);
  constexpr int draws = 200000;
  double sum = 0, squares = 0, fourths = 0;
  for (int i = 0; i < draws; ++i) {
    const auto value = static_cast<double>(stream.normal());
    sum += value;
    squares += value * value;
    fourths += value * value * value * value;
  }
  EXPECT_NEAR(sum / draws, 0, 0.012);
  EXPECT_NEAR(squares / draws, 1, 0.016);
  EXPECT_NEAR(fourths / draws, 3, 0.11);
}

TEST(Permutation, HoldsEveryNumberOnce) {
  for (const std::int64_t n : {0, 1, 2, 1000}) {
    std::vector<std::int64_t> order = permutation(n, RandomStream(1));
    std::ranges::sort(order);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(std::ssize(order), n);
  }
}

TEST(Permutation, EveryOrderIsEquallyLikely) {
  std::map<std::vector<std::int64_t>, int> seen;
  constexpr int draws = 12000;
  for (std::uint64_t i = 0; i < draws; ++i) ++seen[permutation(3, RandomStream(i))];
  ASSERT_EQ(seen.size(), 6u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, draws / 6.0, 250);
}

TEST(Mix, DependsOnEveryValueAndTheirOrder) {
  const std::array<std::uint64_t, 3> base{1, 2, 3}, swapped{2, 1, 3}, changed{1, 2, 4};
  EXPECT_EQ(mix(base), mix(base));
  EXPECT_NE(mix(base), mix(swapped));
  EXPECT_NE(mix(base), mix(changed));
  EXPECT_NE(mix(base), mix(std::span(base).first(2)));
}

}  // namespace
}  // namespace tasuki
