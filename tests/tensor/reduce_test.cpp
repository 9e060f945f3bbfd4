// Reductions of several arrays: order, rounding, aliasing, and lengths around the vector
// registers'.
#include "tensor/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "tensor/half.hpp"

namespace tasuki {
namespace {

template <class T>
std::vector<T> reduced(DType type, ReduceOp op, const std::vector<std::vector<T>>& arrays) {
  std::vector<const void*> sources;
  for (const auto& array : arrays) sources.push_back(array.data());
  std::vector<T> result(arrays[0].size());
  void* const destination[] = {result.data()};
  reduce_arrays(type, op, sources, destination, std::ssize(result));
  return result;
}

std::vector<float> some_values(std::size_t count, float seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(static_cast<float>(i) + seed) * 100.0f;
  return values;
}

TEST(ReduceArrays, CombinesInArrayOrder) {
  for (const std::size_t count : {1, 7, 8, 9, 63, 64, 65, 5000}) {
    const auto a = some_values(count, 1), b = some_values(count, 2), c = some_values(count, 3);
    const auto sum = reduced<float>(DType::float32, ReduceOp::sum, {a, b, c});
    const auto product = reduced<float>(DType::float32, ReduceOp::prod, {a, b, c});
    const auto least = reduced<float>(DType::float32, ReduceOp::min, {a, b, c});
    const auto most = reduced<float>(DType::float32, ReduceOp::max, {a, b, c});
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(sum[i], (a[i] + b[i]) + c[i]);
      ASSERT_EQ(product[i], (a[i] * b[i]) * c[i]);
      ASSERT_EQ(least[i], std::min({a[i], b[i], c[i]}));
      ASSERT_EQ(most[i], std::max({a[i], b[i], c[i]}));
    }
  }
}

// Two arrays in place have a special loop, which must give the bits of the general one.
TEST(ReduceArrays, IsBitIdenticalForTwoArraysInPlace) {
  auto a = some_values(4099, 1), b = some_values(4099, 2);
  const auto expected = reduced<float>(DType::float32, ReduceOp::sum, {a, b});
  const void* const sources[] = {a.data(), b.data()};
  void* const destinations[] = {a.data(), b.data()};
  reduce_arrays(DType::float32, ReduceOp::sum, sources, destinations, 4099);
  EXPECT_EQ(a, expected);
  EXPECT_EQ(b, expected);
}

// In any place of two arrays in place, or of several ones elsewhere.
TEST(ReduceArrays, IsBitIdenticalWhenSearchingSums) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
  constexpr float most = std::numeric_limits<float>::max();
  const std::pair<float, float> bad[] = {
      {infinity, 1}, {1, -infinity}, {not_a_number, 0}, {infinity, -infinity}, {most, most}};
  constexpr std::size_t count = 4099;
  for (const std::size_t arrays : {2, 3}) {
    for (const bool in_place : {false, true}) {
      const auto expect_found = [&](bool expected, std::size_t place, float first, float last) {
        std::vector<std::vector<float>> values;
        for (std::size_t i = 0; i < arrays; ++i)
          values.push_back(some_values(count, static_cast<float>(i)));
        values.front()[place] = first;
        values.back()[place] = last;
        const auto sums = reduced<float>(DType::float32, ReduceOp::sum, values);
        std::vector<float> elsewhere(count);
        std::vector<const void*> sources;
        std::vector<void*> destinations;
        for (auto& array : values) {
          sources.push_back(array.data());
          if (in_place) destinations.push_back(array.data());
        }
        if (!in_place) destinations.push_back(elsewhere.data());
        EXPECT_EQ(sum_arrays_and_search(sources, destinations, count), expected)
            << first << " and " << last << " at " << place;
        const std::vector<float>& found = in_place ? values.front() : elsewhere;
        // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bits are compared
        EXPECT_EQ(std::memcmp(found.data(), sums.data(), count * sizeof(float)), 0);
      };
      for (const std::size_t place : {0UL, 17UL, 2048UL, count - 1}) {
        expect_found(false, place, most, -1);
        expect_found(false, place, -most, 0);
        for (const auto& [first, last] : bad) expect_found(true, place, first, last);
      }
    }
  }
}

// ((a + b) + (c + d)) and e, of which a place of a result may be a later source.
TEST(SumInTree, AddsAsTheOrderSays) {
  constexpr std::size_t count = 3001;
  for (const bool in_place : {false, true}) {
    std::vector<std::vector<float>> values;
    for (std::size_t i = 0; i < 5; ++i) values.push_back(some_values(count, static_cast<float>(i)));
    const std::vector<std::vector<float>> before = values;
    std::vector<std::vector<float>> elsewhere(3, std::vector<float>(count));
    std::vector<const float*> sources;
    for (const auto& array : values) sources.push_back(array.data());
    const std::vector<std::vector<float*>> results =
        in_place ? std::vector<std::vector<float*>>{{values[4].data(), elsewhere[0].data()},
                                                    {values[0].data()}}
                 : std::vector<std::vector<float*>>{{elsewhere[1].data()}, {elsewhere[2].data()}};
    const std::vector<int> merges{0, 1, 0, 2, 0};
    EXPECT_FALSE(sum_in_tree(sources, merges, results, count, true));
    for (std::size_t i = 0; i < count; ++i) {
      const float sum = (before[0][i] + before[1][i]) + (before[2][i] + before[3][i]);
      for (const float* const found : results[0]) ASSERT_EQ(found[i], sum) << i;
      ASSERT_EQ(results[1][0][i], before[4][i]) << i;
    }
  }
}

TEST(SumInTree, FindsWhatIsNotFinite) {
  constexpr std::int64_t count = 2050;
  std::vector<float> a(count, 1), b(count, 2);
  const std::vector<const float*> sources{a.data(), b.data()};
  const std::vector<int> merges{0, 1};
  const std::vector<std::vector<float*>> results{{a.data()}};
  EXPECT_FALSE(sum_in_tree(sources, merges, results, count, true));
  a[count - 1] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(sum_in_tree(sources, merges, results, count, true));
  EXPECT_FALSE(sum_in_tree(sources, merges, results, count));
  EXPECT_THROW(sum_in_tree(sources, std::vector<int>{1, 0}, results, count), Error);
  EXPECT_THROW(sum_in_tree(sources, std::vector<int>{0, 0}, results, count), Error);
}

TEST(ReduceArrays, WritesInPlaceOrElsewhere) {
  std::vector<std::int64_t> a(3000, 1), b(3000, 20), c(3000, 300), d(3000, 0);
  const void* const sources[] = {a.data(), b.data(), c.data()};
  void* const destinations[] = {d.data(), b.data()};
  reduce_arrays(DType::int64, ReduceOp::sum, sources, destinations, 3000);
  EXPECT_EQ(a[2999], 1);
  EXPECT_EQ(b, std::vector<std::int64_t>(3000, 321));
  EXPECT_EQ(d, b);
}

// Every finite float16 and bfloat16 plus a small number: the sum in float32, rounded once.
TEST(ReduceArrays, Rounds16BitSumsOnceToNearestEven) {
  std::vector<std::uint16_t> all(65536), small_half(65536), small_bfloat(65536);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::uint16_t>(i);
    small_half[i] = half_from_float(0x1p-11f);
    small_bfloat[i] = bfloat16_from_float(0x1p-8f);
  }
  const auto halves =
      reduced<std::uint16_t>(DType::float16, ReduceOp::sum, {all, small_half, small_half});
  const auto bfloats =
      reduced<std::uint16_t>(DType::bfloat16, ReduceOp::sum, {all, small_bfloat, small_bfloat});
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float half = (float_from_half(all[i]) + 0x1p-11f) + 0x1p-11f;
    const float bfloat = (float_from_bfloat16(all[i]) + 0x1p-8f) + 0x1p-8f;
    if (!std::isnan(half)) {
      ASSERT_EQ(halves[i], half_from_float(half)) << i;
    } else {
      ASSERT_TRUE(std::isnan(float_from_half(halves[i]))) << i;
    }
    if (!std::isnan(bfloat)) {
      ASSERT_EQ(bfloats[i], bfloat16_from_float(bfloat)) << i;
    } else {
      ASSERT_TRUE(std::isnan(float_from_bfloat16(bfloats[i]))) << i;
    }
  }
}

TEST(ReduceArrays, Float16OverflowsToInfinity) {
  const std::vector<std::uint16_t> large(20, half_from_float(60000));
  const auto sum = reduced<std::uint16_t>(DType::float16, ReduceOp::sum, {large, large});
  EXPECT_TRUE(std::isinf(float_from_half(sum[0])));
  EXPECT_TRUE(std::isinf(float_from_half(sum[19])));
}

TEST(ReduceArrays, HandlesEmptyAndInvalidInput) {
  const std::vector<std::uint8_t> bytes(4);
  EXPECT_THROW(reduced<std::uint8_t>(DType::uint8, ReduceOp::sum, {bytes, bytes}), Error);
  EXPECT_TRUE(reduced<float>(DType::float32, ReduceOp::sum, {{}, {}}).empty());
  EXPECT_THROW(reduce_arrays(DType::float32, ReduceOp::sum, {}, {}, 0), Error);
}

}  // namespace
}  // namespace tasuki
