// How gradients of GPUs travel: beside the backward pass, with the bits of an exchange after it,
// and as a part of recorded steps.
#include <gmock/gmock.h>

#include "exchange_fixture.hpp"
#include "nn/sequential.hpp"
#include "tests/support/errors.hpp"

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;

class ExchangeOnGpus : public ExchangeFixture {};

constexpr std::int64_t small = 1024;

TEST_P(ExchangeOnGpus, OverlapsWhenQueuedOnTheGpu) {
  ExchangedNet net;
  net.to(gpu_);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *comm_);
  optimizer->set_exchange({.range_bytes = small});
  optimizer->setup(net);
  const GradientExchange& exchange = *optimizer->step_exchange().gradient_exchange();
  EXPECT_EQ(exchange.mode(), queues() ? ExchangeMode::overlapped : ExchangeMode::whole);
  EXPECT_EQ(exchange.ranges().size() > 5, queues());
  EXPECT_THAT(exchange.describe(), HasSubstr(queues() ? " during the backward" : " after the"));
}

// Its parts would be complete together.
TEST_P(ExchangeOnGpus, DividesNoParameterByDefault) {
  constexpr std::int64_t wide = 1100;  // 4.6 MiB of weights, and a range has 4 MiB
  for (const auto mode : {ExchangeMode::overlapped, ExchangeMode::whole}) {
    Sequential net;
    for (const char* const name : {"first", "second", "third"})
      net.append(name, std::make_unique<Linear>(wide, wide));
    net.initialize(1);
    net.to(gpu_);
    const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *comm_);
    optimizer->set_exchange({.mode = mode});
    optimizer->setup(net);
    const std::size_t parts = optimizer->step_exchange().gradient_exchange()->ranges().size();
    EXPECT_EQ(parts, queues() && mode == ExchangeMode::overlapped ? 3 : 1) << name_of(mode);
  }
}

TEST_P(ExchangeOnGpus, HasTheSameBitsDuringAndAfterBackward) {
  const Result whole = trained({{.mode = ExchangeMode::whole, .range_bytes = small}});
  EXPECT_EQ(std::ranges::count(whole.was_busy, true), 0);
  const Result overlapped = trained({{.mode = ExchangeMode::overlapped, .range_bytes = small}});
  EXPECT_EQ(overlapped.weights, whole.weights);
  // Their order is learned in the first step.
  for (std::size_t i = 0; i < overlapped.was_busy.size(); ++i)
    EXPECT_EQ(overlapped.was_busy[i], queues() && i > 0) << "step " << i;
}

TEST_P(ExchangeOnGpus, IsAPartOfRecordedSteps) {
  if (!queues()) GTEST_SKIP() << GetParam() << " exchanges by way of the host";
  const ExchangeSettings overlapped{.mode = ExchangeMode::overlapped, .range_bytes = small};
  const Result plain = trained({overlapped}), recorded = trained({overlapped, GraphMode::on});
  EXPECT_EQ(recorded.weights, plain.weights);
  EXPECT_EQ(recorded.t, Way().steps);
  EXPECT_GT(recorded.recordings, 0);
  EXPECT_LT(recorded.was_busy.size(), plain.was_busy.size()) << "steps were repeated";
  EXPECT_TRUE(recorded.was_busy.back()) << "the recording has no overlap";
}

TEST_P(ExchangeOnGpus, ContinuesAfterAFailedRecording) {
  if (!queues()) GTEST_SKIP() << GetParam() << " exchanges by way of the host";
  const Way overlapped{.exchange = {.mode = ExchangeMode::overlapped, .range_bytes = small}};
  EXPECT_EQ(trained_without_recordings(overlapped, Moment::backward).weights,
            trained(overlapped).weights);
}

// Two exchanges of NCCL's at a time may block each other.
TEST_P(ExchangeOnGpus, WaitsForBackwardWhenLayersCommunicate) {
  const Result synced =
      trained({.exchange = {.mode = ExchangeMode::overlapped}, .syncs_norm = true});
  EXPECT_FALSE(synced.was_busy.empty());
  EXPECT_EQ(std::ranges::count(synced.was_busy, true), 0);
  EXPECT_THAT(synced.description, HasSubstr(" after the backward pass"));
  EXPECT_EQ(trained({.syncs_norm = true}).description, "in 1 range(s) after the backward pass");
}

TEST_P(ExchangeOnGpus, ShardsOptimizerStates) {
  for (const bool is_clipped : {false, true}) {
    Way way{.rule = "adam", .is_clipped = is_clipped};
    const Result alone = trained(way);
    way.is_sharded = true;
    for (const GraphMode graph : {GraphMode::off, GraphMode::automatic}) {
      way.graph = graph;
      const Result shared = trained(way);
      EXPECT_EQ(shared.weights, alone.weights);
      EXPECT_EQ(shared.states, alone.states);
      EXPECT_LT(shared.state_bytes, alone.state_bytes);
      EXPECT_EQ(shared.recordings > 0, queues() && graph != GraphMode::off);
    }
  }
}

TEST_P(ExchangeOnGpus, RejectsShardedStatesForWholeArenaUpdates) {
  ExchangedNet net;
  net.to(gpu_);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("lamb"), *comm_);
  optimizer->states().shard(true);
  expect_error(ErrorKind::usage, {"--shard and --gpu", "LAMB"}, [&] { optimizer->setup(net); });
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExchangeOnGpus,
                         ::testing::Values("pure_nccl", "single_node", "hierarchical"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tasuki::testing
