// Training figures in the log are those of all ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "communicator/registry.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "models/mlp.hpp"
#include "small_run.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/workers/parallel_updater.hpp"

namespace tasuki {
namespace {

using testing::share_of;
using testing::small_model;
using testing::SmallRun;
using testing::synthetic;
using testing::TemporaryFolder;

// A model that does not learn sees each example once an epoch: the log's means are those of the
// whole data set, however it is dealt.
TEST(Metrics, MatchOneRankOnTheSameExamples) {
  const auto comm = create_communicator("naive");
  const TemporaryFolder folder(comm.get());
  for (const std::int64_t examples : {97, 9, 1}) {
    SCOPED_TRACE(examples);
    // No layer of it behaves differently in training.
    Classifier model(std::make_unique<MLP>(12, 8, 4));
    model.initialize(5);
    const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *comm);
    optimizer->set("lr", 0);
    optimizer->setup(model);
    const auto loss = classification_loss(model);
    StandardUpdater::Settings settings;
    Trainer trainer(std::make_unique<StandardUpdater>(
                        create_shuffled_iterator(share_of(synthetic(examples), comm.get()), 7, 1),
                        *optimizer, loss, settings),
                    stop_after(2), folder / "out");
    const LogReport& log = trainer.extend(std::make_unique<LogReport>());
    trainer.run();

    Evaluator alone(create_serial_iterator(Share::whole(synthetic(examples)), examples), loss);
    const Observation expected = alone.evaluate();
    ASSERT_EQ(log.entries().size(), 2U);
    for (const auto& entry : log.entries()) {
      EXPECT_EQ(entry.at("main/accuracy").get<double>(), *expected.mean("main/accuracy"));
      EXPECT_NEAR(entry.at("main/loss").get<double>(), *expected.mean("main/loss"), 1e-6);
    }
  }
}

// Sums are exact until they are read, also on their way between ranks.
TEST(Metrics, AddUpRanksExactly) {
  const auto comm = create_communicator("naive");
  Observation own;
  // Rank r has 1e17, 2^-r and -1e17, which no double can hold at once.
  for (const double value : {1e17, std::ldexp(1.0, -comm->rank()), -1e17})
    own.add_sum("value", value, 1);
  const double expected = (2 - std::ldexp(1.0, 1 - comm->size())) / (3.0 * comm->size());
  EXPECT_EQ(own.over_ranks(comm.get()).mean("value"), expected);
}

TEST(Metrics, AskForUnknownGlobalBatchSize) {
  const auto comm = create_communicator("naive");
  std::vector<Tensor> weights;
  for (const bool known : {true, false}) {
    const auto model = small_model();
    const auto optimizer = create_multi_node_optimizer(create_optimizer("momentum_sgd"), *comm);
    optimizer->setup(*model);
    std::unique_ptr<Iterator> iterator =
        create_shuffled_iterator(share_of(synthetic(23), comm.get()), 5, 1);
    if (!known) iterator = std::make_unique<testing::Unknowing>(std::move(iterator));
    StandardUpdater::Settings settings;
    StandardUpdater updater(std::move(iterator), *optimizer, classification_loss(*model), settings);
    Observation seen;
    for (int step = 0; step < 12; ++step) updater.update(seen);
    EXPECT_EQ(updater.iteration(), 12);
    weights.push_back(optimizer->arena().values().clone());
  }
  EXPECT_EQ(std::memcmp(weights[0].raw(), weights[1].raw(), weights[0].bytes()), 0);
}

TEST(Metrics, CountExamplesOfAllWorkersForUnknownBatchSize) {
  const auto comm = create_communicator("naive");
  std::vector<Tensor> weights;
  for (const bool known : {true, false}) {
    const auto first = small_model(), second = small_model();
    const auto optimizer = create_multi_node_optimizer(create_optimizer("momentum_sgd"), *comm);
    optimizer->setup(*first);
    std::unique_ptr<Iterator> iterator =
        create_shuffled_iterator(share_of(synthetic(23), comm.get()), 5, 1);
    if (!known) iterator = std::make_unique<testing::Unknowing>(std::move(iterator));
    ParallelUpdater updater(
        std::move(iterator), *optimizer,
        {{*first, classification_loss(*first)}, {*second, classification_loss(*second)}},
        {.split = BatchSplit::fixed({1, 3})});
    Observation seen;
    for (int step = 0; step < 12; ++step) updater.update(seen);
    weights.push_back(optimizer->arena().values().clone());
  }
  EXPECT_EQ(std::memcmp(weights[0].raw(), weights[1].raw(), weights[0].bytes()), 0);
}

TEST(Metrics, RejectEmptyTrainingData) {
  const auto comm = create_communicator("naive");
  const TemporaryFolder folder(comm.get());
  EXPECT_THROW(SmallRun(folder / "out", comm.get(), {.examples = 0}), Error);
}

}  // namespace
}  // namespace tasuki
