// Threads that compute whole shards: the bits of one thread, also on several ranks.
#include "training/workers/shard_threads.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <limits>

#include "communicator/registry.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"
#include "nn/sequential.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/standard_updater.hpp"

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t shards = 12, batch = 25, examples = 90;

// With statistics, random numbers and a layer that may not know its input's size.
TrainingModel small_net(std::uint64_t seed, bool is_open = false) {
  auto net = std::make_unique<Sequential>();
  net->append("l1", is_open ? std::make_unique<Linear>(std::nullopt, 20)
                            : std::make_unique<Linear>(12, 20));
  net->append("bn", std::make_unique<BatchNorm>(20)).append(functions::relu);
  net->append([](const Variable& x) { return functions::dropout(x, 0.3F); });
  net->append("l2", std::make_unique<Linear>(20, 4));
  auto model = std::make_unique<Classifier>(std::move(net));
  model->initialize(seed);
  LossFunction loss = classification_loss(*model);
  return {std::move(model), std::move(loss)};
}

std::unique_ptr<Iterator> batches_of(Communicator* ranks, bool is_training) {
  return std::make_unique<ShareIterator>(
      share_of(synthetic(examples), ranks, static_cast<int>(shards)),
      ShareIteratorOptions{.global_batch = batch,
                           .shuffle = is_training,
                           .seed = 3,
                           .repeat = is_training,
                           .marks_shards = true});
}

struct Options {
  std::size_t threads = 1;
  bool is_open = false;
  std::int64_t accumulate = 1;
  std::function<void(Optimizer&)> configure = [](Optimizer&) {};
  // Called by the loss functions of further threads.
  std::function<void()> in_copies = [] {};
  // Whether their losses are not finite; the gradients then stay finite.
  const std::atomic<bool>* spoils = nullptr;
};

struct ShardRun {
  ShardRun(Communicator* ranks, const Options& options)
      : model(small_net(5, options.is_open)), optimizer(create_optimizer("adam")) {
    if (ranks) optimizer = create_multi_node_optimizer(std::move(optimizer), *ranks);
    optimizer->set_shards(shards);
    options.configure(*optimizer);
    optimizer->setup(*model.model);
    StandardUpdater::Settings settings;
    settings.seed = 3;
    settings.accumulate = options.accumulate;
    settings.shard_threads = options.threads;
    settings.create_copy = [options] {
      // Further models begin with other weights, which must not matter.
      TrainingModel copy = small_net(6);
      copy.loss = [loss = copy.loss, options](const Batch& part, Observation& report) {
        options.in_copies();
        const Variable mean = loss(part, report);
        if (options.spoils == nullptr || !*options.spoils) return mean;
        const Tensor infinite = Tensor::zeros({});
        infinite.fill(std::numeric_limits<double>::infinity());
        return mean + Variable(infinite);
      };
      return copy;
    };
    updater = std::make_unique<StandardUpdater>(batches_of(ranks, true), *optimizer, model.loss,
                                                settings);
    evaluator =
        std::make_unique<Evaluator>(batches_of(ranks, false), updater->evaluation_loss(model.loss));
  }

  TrainingModel model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<StandardUpdater> updater;
  std::unique_ptr<Evaluator> evaluator;
};

// What a step leaves: weights, statistics and what was observed.
std::vector<double> state_of(const ShardRun& run) {
  std::vector<double> values;
  const auto add = [&](const Tensor& tensor) {
    const Tensor wide = tensor.to(DType::float64);
    values.insert(values.end(), wide.span<double>().begin(), wide.span<double>().end());
  };
  add(run.optimizer->arena().values());
  for (const Module::NamedBuffer& buffer : run.model.model->buffers()) add(*buffer.tensor);
  return values;
}

std::vector<double> trained(Communicator* ranks, const Options& options, int iterations = 9) {
  ShardRun run(ranks, options);
  std::vector<double> seen;
  const auto add = [&](const Observation& observation) {
    const Observation all = observation.over_ranks(ranks);
    for (const char* key : {"main/loss", "main/accuracy"}) seen.push_back(all.mean(key).value());
  };
  for (int i = 0; i < iterations; ++i) {
    Observation observation;
    run.updater->update(observation);
    add(observation);
  }
  run.updater->flush();
  add(run.evaluator->evaluate());
  const std::vector<double> state = state_of(run);
  seen.insert(seen.end(), state.begin(), state.end());
  return seen;
}

class ThreadsOfShards : public ::testing::Test {
 protected:
  ThreadsOfShards() : ranks_(create_communicator("naive")) { set_cpu_threads(1); }

  std::unique_ptr<Communicator> ranks_;
};

TEST_F(ThreadsOfShards, HaveTheBitsOfOne) {
  const std::vector<double> expected = trained(nullptr, {});
  EXPECT_NE(expected, trained(nullptr, {}, 8));
  for (const std::size_t threads : {1, 2, 3, 5, 40}) {
    SCOPED_TRACE(threads);
    EXPECT_EQ(trained(ranks_.get(), {.threads = threads}), expected);
  }
  // Ranks may have different numbers.
  EXPECT_EQ(trained(ranks_.get(), {.threads = 1 + static_cast<std::size_t>(ranks_->rank())}),
            expected);
}

TEST_F(ThreadsOfShards, AddTheBatchesOfAStep) {
  EXPECT_EQ(trained(ranks_.get(), {.threads = 3, .accumulate = 3}),
            trained(nullptr, {.accumulate = 3}));
}

TEST_F(ThreadsOfShards, FollowHooksFrozenAndRoundedWeights) {
  const auto configure = [](Optimizer& optimizer) {
    optimizer.add_hook(gradient_clipping(0.5));
    optimizer.freeze("predictor/l1/b");
    optimizer.compute_in(DType::bfloat16);
  };
  EXPECT_EQ(trained(ranks_.get(), {.threads = 3, .configure = configure}),
            trained(nullptr, {.configure = configure}));
}

TEST_F(ThreadsOfShards, FollowParametersThatAreFrozenLater) {
  const auto weights = [](Communicator* ranks, std::size_t threads) {
    ShardRun run(ranks, {.threads = threads});
    Observation unused;
    for (const char* change : {"", "predictor/l1/*", "**"}) {
      if (*change == 'p') run.optimizer->freeze(change);
      if (*change == '*') run.optimizer->unfreeze(change);
      for (int i = 0; i < 3; ++i) run.updater->update(unused);
    }
    return state_of(run);
  };
  EXPECT_EQ(weights(ranks_.get(), 2), weights(nullptr, 1));
}

TEST_F(ThreadsOfShards, MayDivideStatesAndUseLateGradients) {
  const auto late = [](Optimizer& optimizer) {
    optimizer.set_exchange({.mode = ExchangeMode::double_buffered});
  };
  EXPECT_EQ(trained(ranks_.get(), {.threads = 2, .configure = late}),
            trained(ranks_.get(), {.configure = late}));
  const auto divided = [](Optimizer& optimizer) { optimizer.states().shard(true); };
  EXPECT_EQ(trained(ranks_.get(), {.threads = 2, .configure = divided}), trained(nullptr, {}));
}

// An error in one thread ends the step when all have ended; the model has what it had before.
TEST_F(ThreadsOfShards, LeaveAFailedStepOut) {
  std::atomic<bool> fails = false;
  Options options{.threads = 3};
  options.in_copies = [&fails] {
    if (fails) fail(ErrorKind::data, "a loss that fails");
  };
  ShardRun run(nullptr, options);
  Observation unused;
  for (int i = 0; i < 2; ++i) run.updater->update(unused);
  const std::vector<double> before = state_of(run);
  fails = true;
  EXPECT_THAT(error_of([&] { run.updater->update(unused); }), HasSubstr("a loss that fails"));
  EXPECT_EQ(state_of(run), before);
  EXPECT_EQ(run.optimizer->t(), 2);
  fails = false;
  run.updater->update(unused);
  EXPECT_EQ(run.optimizer->t(), 3);
  EXPECT_NE(state_of(run), before);
}

// Losses that are not finite in a further thread count, too.
TEST_F(ThreadsOfShards, LeaveOutStepsWithoutFiniteLosses) {
  std::atomic<bool> spoils = false;
  Options options{.threads = 2};
  options.spoils = &spoils;
  ShardRun run(nullptr, options);
  run.optimizer->guard().skip_non_finite();
  Observation unused;
  run.updater->update(unused);
  const std::vector<double> before = state_of(run);
  spoils = true;
  run.updater->update(unused);
  EXPECT_EQ(state_of(run), before);
  EXPECT_EQ(run.optimizer->guard().skipped(), 1);
  spoils = false;
  run.updater->update(unused);
  EXPECT_NE(state_of(run), before);
}

TEST_F(ThreadsOfShards, AreOneIfALayerHasNoShapeYet) {
  EXPECT_EQ(trained(nullptr, {.threads = 2, .is_open = true}), trained(nullptr, {.is_open = true}));
}

}  // namespace
}  // namespace tasuki::testing
