// The loader picks the version of a loop that the processor's features allow.
#include "tensor/vectorize.hpp"

#include <gtest/gtest.h>

#include <array>

namespace tasuki {
namespace {

// a * b + c for every element. Versions with FMA round once, the baseline rounds twice.
TASUKI_VECTORIZE void multiply_add(const float* a, const float* b, const float* c, float* result,
                                   int count) {
  for (int i = 0; i < count; ++i) result[i] = a[i] * b[i] + c[i];
}

TEST(Vectorize, UsesFmaWhereAvailable) {
  // (1 + e)(1 - e) - 1 = -e^2, which a product rounded to 1 beforehand loses.
  constexpr float e = 0x1p-13f;
  const std::array<float, 3> a{1 + e, 1 + e, 1 + e}, b{1 - e, 1 - e, 1 - e}, c{-1, -1, -1};
  std::array<float, 3> result{};
  multiply_add(a.data(), b.data(), c.data(), result.data(), 3);
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "loops are compiled once in this build";
#else
#ifdef __clang__
  if (!__builtin_cpu_supports("avx512vl"))
    GTEST_SKIP() << "this processor has no AVX-512, and Clang uses no FMA with AVX2";
#else
  if (!__builtin_cpu_supports("x86-64-v3"))
    GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
#endif
  for (const float value : result) EXPECT_EQ(value, -e * e);
#endif
}

}  // namespace
}  // namespace tasuki
