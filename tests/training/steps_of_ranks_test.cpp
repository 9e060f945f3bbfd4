// All ranks record and replay the same steps.
#include <gtest/gtest.h>

#include "communicator/registry.hpp"
#include "nn/functions/loss.hpp"
#include "optimizer/optimizer.hpp"
#include "recorded_steps.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::batch_of;
using testing::device;
using testing::is_recording;
using testing::values;

class RecordedStepsOfRanks : public ::testing::Test {
 protected:
  RecordedStepsOfRanks() {
    model.initialize(3);
    model.to(device);
    optimizer->setup(model);
  }
  // Training steps in which gradients are not exchanged, so that they can be recorded.
  void train(StepRunner& runner, std::int64_t examples, int times) {
    for (int i = 0; i < times; ++i) {
      Batch batch = batch_of(examples, static_cast<float>(i));
      if (knows_all) batch.set_global_size(examples * comm->size());
      Observation seen;
      runner.run(batch, seen, work, "");
    }
  }
  StepRunner::Work work = [this](const Batch& batch, Observation& seen) {
    ++(is_recording() ? recorded : done);
    if (is_recording() && fails) fail(ErrorKind::unavailable, "the stream is busy");
    const auto loss = [&] {
      const Tensor labels = Tensor::zeros({batch.size()}, DType::int32, device);
      Variable found = F::softmax_cross_entropy(model(Variable(batch["x"])), labels);
      seen.add_mean("loss", found.value(), batch.size());
      return found;
    };
    optimizer->backward(optimizer->forward(loss, batch.size()), batch.size());
    optimizer->update(optimizer->exchange());
  };

  const std::unique_ptr<Communicator> comm = create_communicator("dummy");
  const bool is_last = comm->rank() == comm->size() - 1;
  Linear model{2, 3};
  std::unique_ptr<Optimizer> optimizer =
      create_multi_node_optimizer(create_optimizer("adam"), *comm);
  bool knows_all = true, fails = false;
  int done = 0, recorded = 0;
};

TEST_F(RecordedStepsOfRanks, AreReplayedOnlyIfRecordedOnAllRanks) {
  StepRunner runner({optimizer.get()}, {.graph = GraphMode::automatic});
  train(runner, 4, 5);
  EXPECT_EQ(recorded, 1);
  fails = is_last;
  train(runner, 6, 5);
  EXPECT_EQ(recorded, 2);
  EXPECT_EQ(done, 3 + 5);
  EXPECT_EQ(runner.why_not_recorded(),
            is_last ? "the stream is busy" : "another rank could not record its part");
  train(runner, 4, 2);  // others do as they are, too
  EXPECT_EQ(done, 3 + 5 + 2);
  EXPECT_EQ(optimizer->t(), 12);
}

// A rank that has dropped a recording which the others still have: all do what the least ready one
// can, and all record again.
TEST_F(RecordedStepsOfRanks, AreRecordedAgainWhenOneRankDropsThem) {
  StepRunner runner({optimizer.get()}, {.graph = GraphMode::automatic});
  train(runner, 4, 6);
  EXPECT_EQ(done, 3);
  if (is_last) runner.forget();
  train(runner, 4, 4);
  EXPECT_EQ(done, 4);
  EXPECT_EQ(recorded, 2);
  EXPECT_EQ(optimizer->t(), 10);
}

TEST_F(RecordedStepsOfRanks, AllowUnevenExamples) {
  StepRunner runner({optimizer.get()}, {.graph = GraphMode::automatic});
  knows_all = false;  // the sizes are added up
  train(runner, is_last ? 5 : 4, 6);
  EXPECT_EQ(done, 3);
  EXPECT_EQ(recorded, 1);
  train(runner, is_last ? 0 : 3, 3);
  if (comm->size() > 1) {
    EXPECT_EQ(optimizer->t(), 9);
    EXPECT_EQ(recorded, 2);
  } else {
    EXPECT_EQ(optimizer->t(), 6);  // no rank had any
  }
}

// How many examples other ranks have makes no other kind of step: what sums are divided by is a
// late value. (Of exchanges in 16 bits the power of two counts.)
TEST_F(RecordedStepsOfRanks, DoNotDependOnOtherRanksExamples) {
  if (comm->size() != 2) GTEST_SKIP() << "needs two ranks";
  const auto train_for = [&](GraphMode mode) {
    model.initialize(3);
    optimizer = create_multi_node_optimizer(create_optimizer("momentum_sgd"), *comm);
    optimizer->add_hook(gradient_clipping(0.1));
    optimizer->setup(model);
    StepRunner runner({optimizer.get()}, {.graph = mode});
    knows_all = false;
    done = recorded = 0;
    // 9 examples, of which one rank has 4 and then the other, and 10.
    train(runner, is_last ? 5 : 4, 5);
    train(runner, is_last ? 4 : 5, 3);
    train(runner, 5, 3);
    const Tensor host = optimizer->arena().values().to(Device::cpu());
    return std::vector<float>(host.span<float>().begin(), host.span<float>().end());
  };
  const std::vector<float> expected = train_for(GraphMode::off);
  EXPECT_EQ(train_for(GraphMode::automatic), expected);
  EXPECT_EQ(recorded, 2);
  EXPECT_EQ(done, 4);
}

// Rates are late values.
TEST_F(RecordedStepsOfRanks, FollowLaterRateChanges) {
  const auto weights = [this](GraphMode mode) {
    Linear net{2, 3};
    net.initialize(3);
    net.to(device);
    const auto adam = create_optimizer("adam");
    adam->setup(net);
    StepRunner runner({adam.get()}, {.graph = mode});
    for (int i = 0; i < 10; ++i) {
      Observation seen;
      runner.run(
          batch_of(4, static_cast<float>(i)), seen,
          [&](const Batch& batch, Observation&) {
            adam->update(
                [&] {
                  const Tensor labels = Tensor::zeros({4}, DType::int32, device);
                  return F::softmax_cross_entropy(net(Variable(batch["x"])), labels);
                },
                4);
          },
          "");
      if (i == 6) adam->set("alpha", 0.1);
      if (i == 8) adam->add_hook(weight_decay(0.5));
    }
    EXPECT_EQ(adam->t(), 10);
    const Tensor host = adam->arena().values().to(Device::cpu());
    return std::vector<float>(host.span<float>().begin(), host.span<float>().end());
  };
  EXPECT_EQ(weights(GraphMode::automatic), weights(GraphMode::off));
}

}  // namespace
}  // namespace tasuki
