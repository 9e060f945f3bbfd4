// Gradients of GPUs that travel during the next step: recorded or not, the bits are the same, also
// when the model, the exchange or the number of examples changes in between.
#include <gtest/gtest.h>

#include "exchange_fixture.hpp"

namespace tasuki::testing {
namespace {

class DoubleBuffersOnGpus : public ExchangeFixture {
 protected:
  static constexpr ExchangeSettings late{.mode = ExchangeMode::double_buffered};
};

// With their own communicator, so the optimizer's is free.
TEST_P(DoubleBuffersOnGpus, AreOneStepBehind) {
  const Result plain = trained({late}), cpu = trained({late, GraphMode::off, true});
  EXPECT_EQ(std::ranges::count(plain.was_busy, true), 0);
  EXPECT_EQ(plain.t, Way().steps) << "the last ones are used, too";
  EXPECT_LT(largest_difference(plain.weights, cpu.weights), 1e-5);
  EXPECT_GT(largest_difference(plain.weights, trained({}).weights), 1e-3);

  const Result recorded = trained({late, queues() ? GraphMode::on : GraphMode::automatic});
  EXPECT_EQ(recorded.weights, plain.weights);
  EXPECT_EQ(recorded.t, Way().steps);
  EXPECT_EQ(recorded.recordings > 0, queues());
}

// Recordings of the model as it was still hold sums when its arrays are replaced.
TEST_P(DoubleBuffersOnGpus, FollowChangingModel) {
  if (!queues()) GTEST_SKIP() << GetParam() << " exchanges by way of the host";
  Way way{.exchange = late, .steps = 18};
  way.change = [](ExchangedNet& net, Optimizer& optimizer, std::uint64_t step) {
    if (step == 6) optimizer.freeze("first/*");
    if (step == 11) net.grow();
    if (step == 15) optimizer.set_exchange({.mode = ExchangeMode::overlapped});
  };
  const Result plain = trained(way);
  way.is_on_cpu = true;
  EXPECT_LT(largest_difference(plain.weights, trained(way).weights), 1e-5);
  way.is_on_cpu = false;
  way.graph = GraphMode::on;
  const Result recorded = trained(way);
  EXPECT_EQ(recorded.weights, plain.weights);
  EXPECT_GE(recorded.recordings, 3) << "of each model";
}

// By the examples of the step before, whose gradients travel.
TEST_P(DoubleBuffersOnGpus, ScaleFloat16TrafficByItsExamples) {
  if (!queues()) GTEST_SKIP() << GetParam() << " exchanges by way of the host";
  Way way{.exchange = late, .steps = 20};
  way.examples = [](std::uint64_t step) {
    return step == 5 || step == 10 || step == 13 || step == 17 ? 100 : 6;
  };
  const Result exact = trained(way);
  way.wire_dtype = DType::float16;
  const Result plain = trained(way);
  EXPECT_NE(plain.weights, exact.weights);
  EXPECT_LT(largest_difference(plain.weights, exact.weights), 1e-2);
  way.graph = GraphMode::on;
  const Result recorded = trained(way);
  EXPECT_EQ(recorded.weights, plain.weights);
  EXPECT_GE(recorded.recordings, 4) << "small and large batches, behind small and large ones";
}

// It may fail when sums have begun to travel, and when the arrays have been swapped.
TEST_P(DoubleBuffersOnGpus, ContinueAfterAFailedRecording) {
  if (!queues()) GTEST_SKIP() << GetParam() << " exchanges by way of the host";
  const Result plain = trained({late});
  for (const Moment moment : {Moment::forward, Moment::backward, Moment::update}) {
    const Result found = trained_without_recordings({late}, moment);
    EXPECT_EQ(found.weights, plain.weights) << "moment " << static_cast<int>(moment);
    EXPECT_EQ(found.t, plain.t);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DoubleBuffersOnGpus, ::testing::Values("pure_nccl", "hierarchical"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tasuki::testing
