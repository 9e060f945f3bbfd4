// Every function of the CPU's backend in 16 bits against float32, on the same values; with the
// processor's instructions for bfloat16, without them (CMakeLists.txt), and by emulated tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "compare.hpp"
#include "problems.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tests/support/orders.hpp"
#include "tests/tensor/tile_emulation.hpp"

namespace tasuki::testing {
namespace {

// Inputs with four axes in this order, if any.
void check(const Problems& problems, DType type, const Order* order) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE("TASUKI_TEST_SEED=" + std::to_string(seed));
  for (const Problem& problem : problems) {
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
  check(all_problems(), DType::bfloat16, nullptr);
}
TEST(SixteenBits, OfFloat16AgreeWithFloat32InEveryProblem) {
  check(all_problems(), DType::float16, nullptr);
}
// Where no primitive makes them, there are no other orders.
TEST(SixteenBits, AgreeWithFloat32InOtherOrders) {
  if (!has_bfloat16_products()) GTEST_SKIP() << "products of bfloat16 need AVX512_BF16 or AMX";
  for (const std::string_view name : {"blocks of 16 channels", "channels last"}) {
    SCOPED_TRACE(name);
    check(all_problems(), DType::bfloat16, std::ranges::find(every_order, name, &Order::name));
  }
}

// As on a processor with AMX. Nothing is timed, because plain loops would never be chosen. Images
// and recurrent layers also need oneDNN's primitives for bfloat16 and our own loops for
// AVX512_BF16; without them, they are left out.
TEST(SixteenBits, OfBfloat16AgreeWithFloat32ByEmulatedTiles) {
  Problems problems;
  if (has_bfloat16_products()) {
    problems = all_problems();
  } else {
    add_linear_problems(problems);
    add_array_operations_problems(problems);
    add_attention_operations_problems(problems);
  }
  const EmulatedTiles tiles;
  set_conv_algorithm(ConvAlgorithm::by_shape);
  check(problems, DType::bfloat16, nullptr);
  set_conv_algorithm(ConvAlgorithm::fastest);
}

}  // namespace
}  // namespace tasuki::testing
