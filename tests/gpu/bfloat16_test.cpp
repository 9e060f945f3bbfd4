// Every function of the CPU's backend in 16 bits against float32, on the same values; with the
// processor's instructions for bfloat16, and without them (CMakeLists.txt).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "compare.hpp"
#include "problems.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tests/support/orders.hpp"

namespace tasuki::testing {
namespace {

// All problems; inputs with four axes in this order, if any.
void check(DType type, const Order* order) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE("TASUKI_TEST_SEED=" + std::to_string(seed));
  for (const Problem& problem : all_problems()) {
    SCOPED_TRACE(problem.name);
    Side tested(Device::cpu(), type, type, seed);
    Side reference(Device::cpu(), DType::float32, type, seed);
    if (order != nullptr)
      for (Side* const side : {&tested, &reference})
        side->lay_out([order](const Tensor& x) { return in_order(x, *order); });
    poison_pool(Device::cpu());
    try {
      const Results found = problem.compute(tested);
      EXPECT_TRUE(agree(found, problem.compute(reference), 1e-2));
      for (const Result& result : found) {
        const bool is_activation = result.name == "y" || result.name == "dx";
        EXPECT_TRUE(!is_activation || result.value.dtype() == type) << result.name;
      }
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(SixteenBits, OfBfloat16AgreeWithFloat32InEveryProblem) {
  check(DType::bfloat16, nullptr);
}
TEST(SixteenBits, OfFloat16AgreeWithFloat32InEveryProblem) {
  check(DType::float16, nullptr);
}
// Where no primitive makes them, there are no other orders.
TEST(SixteenBits, AgreeWithFloat32InOtherOrders) {
  if (!has_bfloat16_products()) GTEST_SKIP() << "products of bfloat16 need AVX512_BF16 or AMX";
  for (const std::string_view name : {"blocks of 16 channels", "channels last"}) {
    SCOPED_TRACE(name);
    check(DType::bfloat16, std::ranges::find(every_order, name, &Order::name));
  }
}

}  // namespace
}  // namespace tasuki::testing
