// The host pool, and copies between element types.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

#include "tensor/backend.hpp"
#include "tensor/half.hpp"
#include "tensor/out_of_memory.hpp"
#include "tensor/tensor.hpp"
#include "tests/support/skip.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

TEST(HostPool, AlignsBlocks) {
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 1000, 100'000, 10'000'000}) {
    const auto block = allocate_host(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data()) % 64, 0u);
    EXPECT_GE(block->bytes(), bytes);
    EXPECT_LE(block->bytes(), std::max<std::size_t>(64, bytes + bytes / 8 + 64));
  }
}

TEST(HostPool, ReusesFreedBlocks) {
  auto block = allocate_host(123'456);
  const void* const address = block->data();
  block.reset();
  EXPECT_EQ(allocate_host(123'456)->data(), address);
}

// All of ctest's entries ask for it.
TEST(HostPool, FillsNewBlocksWithNaNOnRequest) {
  const char* const asked = std::getenv("TASUKI_CHECK_MEMORY");
  if (asked == nullptr || std::string_view(asked) != "1")
    GTEST_SKIP() << "TASUKI_CHECK_MEMORY is not 1";
  for (const bool is_used_again : {false, true}) {
    SCOPED_TRACE(is_used_again ? "a block that was written before" : "a new block");
    for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
      const Tensor values = Tensor::empty({1000}, type);
      EXPECT_TRUE(std::isnan(values.slice(999, 1000).item())) << name_of(type);
      values.fill(0);
    }
  }
}

TEST(HostPool, StatisticsAddUp) {
  const HostPoolStatistics before = host_pool_statistics();
  {
    const auto block = allocate_host(1 << 20);
    const HostPoolStatistics during = host_pool_statistics();
    EXPECT_EQ(during.in_use, before.in_use + (1 << 20));
    EXPECT_GE(during.peak, during.in_use);
  }
  const HostPoolStatistics after = host_pool_statistics();
  EXPECT_EQ(after.in_use, before.in_use);
  EXPECT_GE(after.cached, std::size_t{1} << 20);
}

// Ever new sizes must not pile up: what is kept is bounded by what was in use at once.
TEST(HostPool, CachesAtMostThePeakUse) {
  for (int i = 0; i < 200; ++i)
    allocate_host((std::size_t{1} << 20) + static_cast<std::size_t>(i) * 150'000);
  const HostPoolStatistics held = host_pool_statistics();
  EXPECT_LE(held.cached, held.peak + held.peak / 4 + (std::size_t{32} << 20));
}

TEST(HostPool, IsThreadSafe) {
  const std::size_t before = host_pool_statistics().in_use;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 500; ++i) {
        const auto block = allocate_host(static_cast<std::size_t>(1000 + 64 * (i % 7)));
        auto* const bytes = static_cast<unsigned char*>(block->data());
        std::fill_n(bytes, 1000, static_cast<unsigned char>(t));
        for (int k = 0; k < 1000; k += 100) ASSERT_EQ(bytes[k], t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(host_pool_statistics().in_use, before);
}

TEST(HostPool, RejectsImpossibleRequests) {
  if (testing::has_address_sanitizer)
    GTEST_SKIP() << "AddressSanitizer ends a program that asks for so much";
  const HostPoolStatistics before = host_pool_statistics();
  reset_host_pool_peak();
  try {
    allocate_host(std::size_t{1} << 60);
    ADD_FAILURE() << "an exbibyte was there";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.figures().in_use, before.in_use);
  }
  const HostPoolStatistics after = host_pool_statistics();
  EXPECT_EQ(after.in_use, before.in_use);
  EXPECT_EQ(after.peak, before.peak);
  EXPECT_EQ(host_pool_peak(), before.in_use);
}

TEST(Conversion, EveryPairOfTypes) {
  const std::vector<DType> types = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                                    DType::int32,   DType::int64,   DType::uint8};
  const std::vector<double> values = {0, 1, 2, 100, 128};
  const Tensor start = Tensor::from(std::span(values), {5});
  for (const DType from : types) {
    for (const DType to : types) {
      const Tensor back = start.to(from).to(to).to(DType::float64);
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(back.span<double>()[i], values[i]) << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST(Conversion, FillOfEveryType) {
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                           DType::int32, DType::int64, DType::uint8})
    EXPECT_EQ(Tensor::full({3}, 5, type).slice(2, 3).item(), 5) << name_of(type);
}

// Every finite half, against arithmetic on its fields.
TEST(Half, RoundTripsEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const int exponent = (half >> 10) & 31, mantissa = half & 1023;
    const float value = float_from_half(half);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), mantissa != 0);
      EXPECT_EQ(std::isinf(value), mantissa == 0);
      if (mantissa != 0) continue;
    } else {
      const double magnitude =
          exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
      ASSERT_EQ(static_cast<double>(value), half & 0x8000 ? -magnitude : magnitude) << bits;
    }
    ASSERT_EQ(half_from_float(value), half);
  }
}

TEST(Half, KeepsSubnormalsWithFlushToZero) {
  set_cpu_threads(1);
  EXPECT_EQ(float_from_half(1), 0x1p-24f);
  EXPECT_EQ(half_from_float(0x1p-24f), 1);
  EXPECT_EQ(float_from_half(0x3ff), 0x3ffp-24f);
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(half_from_float(1 + 0x1p-11f), 0x3c00) << "a tie: down to even";
  EXPECT_EQ(half_from_float(1 + 3 * 0x1p-11f), 0x3c02) << "a tie: up to even";
  EXPECT_EQ(half_from_float(1 + 0x1.1p-11f), 0x3c01);
  EXPECT_EQ(half_from_float(65504), 0x7bff);
  EXPECT_EQ(half_from_float(65519), 0x7bff);
  EXPECT_EQ(half_from_float(65520), 0x7c00);
  EXPECT_EQ(half_from_float(-1e30f), 0xfc00);
  EXPECT_EQ(half_from_float(0x1p-25f), 0) << "a tie: down to zero";
  EXPECT_EQ(half_from_float(0x1.1p-25f), 1);
  EXPECT_TRUE(std::isnan(float_from_half(half_from_float(std::nanf("")))));
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(bfloat16_from_float(1), 0x3f80);
  EXPECT_EQ(bfloat16_from_float(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(bfloat16_from_float(1 + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(float_from_bfloat16(0xc040), -3);
  EXPECT_EQ(bfloat16_from_float(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(float_from_bfloat16(bfloat16_from_float(std::nanf("")))));
}

// Loops have instructions of their own, which threads that flush subnormal numbers must not change.
TEST(HalfFormat, ConvertsArraysLikeSingleValues) {
  set_cpu_threads(1);
  constexpr std::uint32_t tails[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  std::vector<float> values;
  for (std::uint32_t head = 0; head < 0x10000; ++head)
    for (const std::uint32_t tail : tails)
      values.push_back(std::bit_cast<float>(head << 16 | tail));
  const auto check = [&](DType type, std::uint16_t (*narrow)(float),
                         float (*widen)(std::uint16_t)) {
    SCOPED_TRACE(name_of(type));
    const auto count = static_cast<std::int64_t>(values.size()) - 7;  // no multiple of a vector
    std::vector<std::uint16_t> halves(values.size(), 0x1234);
    half_format(type).narrow(halves.data(), values.data(), count);
    std::vector<float> again(values.size());
    half_format(type).widen(again.data(), halves.data(), count);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(again[i])) << i;
        continue;
      }
      ASSERT_EQ(halves[i], narrow(values[i])) << values[i];
      ASSERT_EQ(std::bit_cast<std::uint32_t>(again[i]),
                std::bit_cast<std::uint32_t>(widen(halves[i])));
    }
    EXPECT_EQ(halves[static_cast<std::size_t>(count)], 0x1234);
  };
  check(DType::bfloat16, bfloat16_from_float, float_from_bfloat16);
  check(DType::float16, half_from_float, float_from_half);
}

}  // namespace
}  // namespace tasuki
