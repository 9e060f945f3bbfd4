// The CPU's backend takes its inputs in every order of elements: the problems of GPUs, computed
// twice on the CPU.
#include "tests/support/orders.hpp"

#include <gtest/gtest.h>

#include "compare.hpp"
#include "problems.hpp"

namespace tasuki::testing {
namespace {

Side cpu_side() {
  return {Device::cpu(), DType::float32, DType::float32, 5};
}

// Each problem with inputs in two of the orders: tests/nn/orders_test.cpp has all of them.
TEST(CpuMemoryOrders, AreAcceptedByEveryProblem) {
  std::size_t next = 0;
  for (const Problem& problem : all_problems()) {
    Side reference = cpu_side();
    bool has_images = false;
    reference.lay_out([&](const Tensor& x) {
      has_images = true;
      return x;
    });
    const Results expected = problem.compute(reference);
    if (!has_images) continue;
    for (int turn = 0; turn < 2; ++turn) {
      const Order& order = every_order[next++ % every_order.size()];
      SCOPED_TRACE(problem.name + ", " + order.name);
      Side tested = cpu_side();
      tested.lay_out([&](const Tensor& x) { return in_order(x, order); });
      try {
        EXPECT_TRUE(agree(problem.compute(tested), expected, 1e-5));
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace tasuki::testing
