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
#include "nn/functions/loss.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"
#include "nn/sequential.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/joint_updater.hpp"
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

// Also before the first step.
TEST_F(ThreadsOfShards, EvaluateTheModelAtAnyTime) {
  const auto values = [](std::size_t threads) {
    ShardRun run(nullptr, {.threads = threads});
    std::vector<double> found;
    Observation unused;
    for (int pass = 0; pass < 2; ++pass) {
      const Observation seen = run.evaluator->evaluate();
      found.push_back(seen.mean("main/loss").value());
      found.push_back(seen.mean("main/accuracy").value());
      run.updater->update(unused);
    }
    return found;
  };
  EXPECT_EQ(values(3), values(1));
}

// Batches that do not say which examples are of which shard are evaluated by one thread.
TEST_F(ThreadsOfShards, EvaluateUnmarkedBatches) {
  ShardRun run(nullptr, {.threads = 3});
  Evaluator evaluator(create_serial_iterator(Share::whole(synthetic(examples)), batch),
                      run.updater->evaluation_loss(run.model.loss));
  const Observation seen = evaluator.evaluate();
  EXPECT_EQ(seen.values().at("main/loss").count, examples);
  EXPECT_EQ(seen.mean("main/loss").has_value(), true);
}

// The first thread has another way to fail.
TEST_F(ThreadsOfShards, LeaveOutAStepThatFailsInTheFirstThread) {
  ShardRun run(nullptr, {.threads = 2});
  Observation unused;
  run.updater->update(unused);
  const std::vector<double> before = state_of(run);
  Classifier& model = dynamic_cast<Classifier&>(*run.model.model);
  StandardUpdater failing(
      batches_of(nullptr, true), *run.optimizer,
      [](const Batch&, Observation&) -> Variable { fail(ErrorKind::data, "the first fails"); },
      [&] {
        StandardUpdater::Settings settings;
        settings.shard_threads = 2;
        settings.create_copy = [] { return small_net(6); };
        return settings;
      }());
  EXPECT_THAT(error_of([&] { failing.update(unused); }), HasSubstr("the first fails"));
  EXPECT_EQ(state_of(run), before);
  EXPECT_EQ(&run.optimizer->model(), &model);
}

// Two optimizers, of which each has a part of the model.
TEST_F(ThreadsOfShards, TrainSeveralOptimizers) {
  struct Pair : Module {
    Linear a{12, 6}, b{6, 4}, fixed{6, 6};
    explicit Pair(std::uint64_t seed) {
      add("a", a);
      add("b", b);
      add("fixed", fixed);
      initialize(seed);
    }
  };
  const auto make = [](std::uint64_t seed) {
    auto pair = std::make_unique<Pair>(seed);
    Pair& made = *pair;
    const auto losses = [&made](const Batch& part, Observation&) {
      const Variable h = functions::relu(made.fixed(made.a(Variable(part["x"]))));
      const Variable loss = functions::softmax_cross_entropy(made.b(h), part["t"]);
      return std::vector{loss, loss + loss};
    };
    return TrainingModel{.model = std::move(pair),
                         .loss = {},
                         .parts = {{"a", made.a}, {"b", made.b}},
                         .losses = losses};
  };
  const auto train = [&](Communicator* ranks, std::size_t threads) {
    const TrainingModel model = make(5);
    std::vector<std::unique_ptr<Optimizer>> owned;
    NamedOptimizers optimizers;
    for (const TrainingModel::Part& part : model.parts) {
      owned.push_back(create_optimizer("adam"));
      if (ranks) owned.back() = create_multi_node_optimizer(std::move(owned.back()), *ranks);
      owned.back()->set_shards(shards);
      if (auto* linear = dynamic_cast<Linear*>(&part.module)) owned.back()->setup(*linear);
      optimizers.push_back({part.name, owned.back().get()});
    }
    JointUpdater::Settings settings;
    settings.seed = 3;
    settings.evaluated_model = model.model.get();
    settings.shard_threads = threads;
    settings.create_copy = [&make] { return make(6); };
    JointUpdater updater(batches_of(ranks, true), optimizers, model.losses, settings);
    std::vector<float> values;
    for (int step = 0; step < 6; ++step) {
      Observation seen;
      updater.update(seen);
      const Observation all = seen.over_ranks(ranks);
      for (const char* key : {"main/loss", "main/a/loss", "main/b/loss"})
        values.push_back(static_cast<float>(all.mean(key).value()));
    }
    for (const auto& [path, parameter] : model.model->parameters())
      values.insert(values.end(), parameter->value().span<float>().begin(),
                    parameter->value().span<float>().end());
    return values;
  };
  const std::vector<float> expected = train(nullptr, 1);
  for (const std::size_t threads : {1, 2, 3}) EXPECT_EQ(train(ranks_.get(), threads), expected);
}

TEST_F(ThreadsOfShards, AreOneIfALayerHasNoShapeYet) {
  EXPECT_EQ(trained(nullptr, {.threads = 2, .is_open = true}), trained(nullptr, {.is_open = true}));
}

}  // namespace
}  // namespace tasuki::testing
