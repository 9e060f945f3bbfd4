// Sums that do not depend on their order.
#include "core/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/philox.hpp"

namespace tasuki {
namespace {

ExactSum sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum;
}

TEST(ExactSum, LosesNothing) {
  EXPECT_EQ(ExactSum().value(), 0);
  EXPECT_EQ(sum_of({1, 1e100, 1, -1e100}).value(), 2);
  EXPECT_EQ(sum_of({0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}).value(), 1);  // as math.fsum
  EXPECT_EQ(sum_of({1e16, 1, 1e-16}).value(), 10000000000000002);                    // above a tie
  EXPECT_EQ(sum_of({1e16, 1, -1e-16}).value(), 1e16);                                // below it
  EXPECT_EQ(sum_of({1e16, 1}).value(), 1e16);  // a tie, to even
}

TEST(ExactSum, IsTheSameInAnyOrderAndInAnyParts) {
  RandomStream random(5);
  std::vector<double> values;
  for (int i = 0; i < 300; ++i)
    values.push_back(std::ldexp(static_cast<double>(random.below(1ULL << 53)) - 0x1p52,
                                static_cast<int>(random.below(200)) - 100));
  const double expected = sum_of(values).value();
  for (int turn = 0; turn < 50; ++turn) {
    for (std::size_t i = values.size() - 1; i > 0; --i)
      std::swap(values[i], values[random.below(i + 1)]);
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(random.below(values.size()));
    ExactSum first = sum_of({values.begin(), middle});
    const ExactSum second = sum_of({middle, values.end()});
    first.add(second);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(first.value()), std::bit_cast<std::uint64_t>(expected));
    ExactSum again;
    for (const double part : first.parts()) again.add(part);
    EXPECT_EQ(again.value(), expected);
  }
  ExactSum twice(3);
  twice.add(twice);
  EXPECT_EQ(twice.value(), 6);
}

TEST(ExactSum, IsNotFiniteIfANumberIsNot) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(sum_of({1, infinity, 2}).value(), infinity);
  EXPECT_EQ(sum_of({-infinity, 1e308}).value(), -infinity);
  EXPECT_TRUE(std::isnan(sum_of({infinity, 1, -infinity}).value()));
  EXPECT_TRUE(std::isnan(sum_of({1, std::nan(""), infinity}).value()));
  ExactSum sum(1);
  sum.add(sum_of({infinity}));
  EXPECT_EQ(sum.value(), infinity);
}

}  // namespace
}  // namespace tasuki
