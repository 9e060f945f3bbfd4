// Evaluation and snapshots of several workers in one process.
#include <gmock/gmock.h>

#include "parallel_run.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/evaluator.hpp"

namespace tasuki::testing {
namespace {

using ::testing::ElementsAre;

TEST(ParallelEvaluation, MatchesOneWorker) {
  ParallelRun parallel(BatchSplit::fixed({2, 1}));
  PlainRun plain;
  train(*parallel.updater, 20);
  train(*plain.updater, 20);
  const auto evaluate = [](LossFunction loss) {
    return Evaluator(create_serial_iterator(share_of(synthetic(41, 1), nullptr), 16),
                     std::move(loss))
        .evaluate();
  };
  const Observation expected = evaluate(classification_loss(*plain.model));
  const Observation found = evaluate(parallel.updater->evaluation_loss());
  EXPECT_NEAR(found.mean("main/loss").value(), expected.mean("main/loss").value(), 1e-5);
  EXPECT_EQ(found.mean("main/accuracy"), expected.mean("main/accuracy"));
}

TEST(ParallelEvaluation, UsesTheFirstWorkersRunningStatistics) {
  ParallelRun::Options options;
  options.make = [](std::uint64_t seed) { return small_model(8, seed); };
  ParallelRun run(BatchSplit::even(2), options);
  train(*run.updater, 10);
  const auto batch = read_batch(*synthetic(16, 1), std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
  Observation ignored;
  const double found = run.updater->evaluation_loss()(batch, ignored).value().item();
  const TrainingMode evaluation(false);
  const double expected = classification_loss(*run.models[0])(batch, ignored).value().item();
  EXPECT_NEAR(found, expected, 1e-6);
}

// A trainer around a run, for snapshots.
Trainer trainer_of(std::unique_ptr<Updater> updater, const TemporaryFolder& folder) {
  return Trainer(std::move(updater), stop_after(10), folder.path());
}

TEST(ParallelResume, RestoresWeightsPositionAndSplit) {
  const TemporaryFolder folder;
  BatchSplit split = BatchSplit::measured(2);
  split.resume({3, 1});
  ParallelRun before(split), after(BatchSplit::measured(2));
  train(*before.updater, 6);
  auto* const second = after.updater.get();
  auto* const first = before.updater.get();
  Trainer from = trainer_of(std::move(before.updater), folder);
  Trainer to = trainer_of(std::move(after.updater), folder);
  transfer(from, to, folder / "snapshot");
  EXPECT_THAT(second->split().weights(), ElementsAre(0.75, 0.25));
  EXPECT_EQ(second->iteration(), 6);
  EXPECT_EQ(train(*second, 5).losses, train(*first, 5).losses);
}

TEST(ParallelResume, ResumesRunsWithAndWithoutWorkers) {
  const TemporaryFolder folder;
  PlainRun before, last;
  ParallelRun between(BatchSplit::measured(2), {.weights = ParallelUpdater::Weights::copied});
  train(*before.updater, 6);
  auto* const plain = before.updater.get();
  auto* const parallel = between.updater.get();
  auto* const again = last.updater.get();
  Trainer a = trainer_of(std::move(before.updater), folder);
  Trainer b = trainer_of(std::move(between.updater), folder);
  Trainer c = trainer_of(std::move(last.updater), folder);
  transfer(a, b, folder / "snapshot");
  train(*parallel, 3);
  transfer(b, c, folder / "snapshot");
  train(*plain, 3);
  EXPECT_NEAR(train(*again, 1).losses[0], train(*plain, 1).losses[0], 1e-5);
}

}  // namespace
}  // namespace tasuki::testing
