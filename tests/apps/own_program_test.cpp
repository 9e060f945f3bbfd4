// What a program gives to a TrainingProgram: optimizer, check, data on every rank, fields of any
// name.
#include <gmock/gmock.h>

#include <algorithm>

#include "saving/npz.hpp"
#include "tests/support/json.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OwnProgram : public ::testing::Test {
 protected:
  Finished run(int np, const std::string& kind, const std::vector<std::string>& flags) {
    return run_program(mpirun(np, with({OWN_PROGRAM, kind, "--threads", "1"}, flags)));
  }
  // All losses of a run that must succeed.
  std::vector<double> losses(int np, const std::string& kind,
                             const std::vector<std::string>& flags) {
    const std::string out = folder / "result";
    std::vector<std::string> words = {"--out", out, "--log-every", "1"};
    if (std::ranges::count(flags, "--resume") == 0) words.push_back("--overwrite");
    const Finished job = run(np, kind, with(words, flags));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    said = job.all();
    const auto entries = log_in(out + "/log");
    auto values = values_of(entries, "main/loss");
    for (const double value : values_of(entries, "validation/main/loss")) values.push_back(value);
    return values;
  }

  TemporaryFolder folder;
  std::string said;
};

TEST_F(OwnProgram, AcceptsAnyFieldNames) {
  const auto found = losses(2, "plain", {"--epoch", "20", "--lr", "0.1"});
  ASSERT_FALSE(found.empty());
  EXPECT_LT(found.back(), found.front() / 10);

  const Finished plan = run(2, "plain", {"--dry-run"});
  EXPECT_EQ(plan.exit_code, 0) << plan.all();
  EXPECT_THAT(plan.out, HasSubstr("Example: 2\n"));
  const Finished search = run(2, "plain", {"--find-batchsize"});
  EXPECT_EQ(search.exit_code, 0) << search.all();
  EXPECT_THAT(search.out, HasSubstr("--batchsize"));
  const Finished images = run(2, "plain", {"--augment", "--out", folder / "images"});
  EXPECT_EQ(images.exit_code, 64) << images.all();
  EXPECT_EQ(count_of(images.err, "--augment changes the images of a field 'x'"), 1);
}

TEST_F(OwnProgram, MayPutTheTrainingTogetherByHand) {
  const auto expected = losses(2, "plain", {});
  EXPECT_EQ(losses(2, "own-training", {}), expected);
  const std::vector<double> in_training(expected.begin(), expected.end() - 2);  // of two epochs
  EXPECT_EQ(losses(2, "own-training-without-tests", {}), in_training);

  const Finished plan = run(2, "own-training", {"--dry-run"});
  EXPECT_EQ(plan.exit_code, 0) << plan.all();
  EXPECT_THAT(plan.out, HasSubstr("Example: 2\n"));
  const Finished search = run(2, "own-training", {"--find-batchsize"});
  EXPECT_EQ(search.exit_code, 0) << search.all();
  EXPECT_THAT(search.out, HasSubstr("--batchsize"));
  const Finished both = run(1, "own-training-and-model", {"--out", folder / "both"});
  EXPECT_EQ(both.exit_code, 70) << both.all();
  EXPECT_THAT(both.err, HasSubstr("TrainingProgram::train replaces create_model"));
}

// Only examples say how long sequences are, and only one rank has the longest.
TEST_F(OwnProgram, MeasuresMemoryWithTheLongestSequence) {
  const auto expect_trials = [](const Finished& job) {
    EXPECT_GT(count_of(job.err, "padded to 300 on trial"), 0) << job.all();
    EXPECT_EQ(count_of(job.err, "on trial"), count_of(job.err, "padded to 300 on trial"))
        << job.all();
  };
  const Finished plan = run(2, "sequences", {"--dry-run"});
  EXPECT_EQ(plan.exit_code, 0) << plan.all();
  expect_trials(plan);
  const Finished search = run(2, "sequences", {"--find-batchsize"});
  EXPECT_EQ(search.exit_code, 0) << search.all();
  EXPECT_GT(count_of(search.err, "on trial"), 3) << "on both ranks";
  expect_trials(search);
  const Finished large = run(2, "large-sequences", {"--out", folder / "large"});
  EXPECT_THAT(large.err, HasSubstr("the largest batch that fits is --batchsize"));
  expect_trials(large);
}

TEST_F(OwnProgram, ConfiguresItsOptimizerByFlags) {
  const std::vector<std::string> flags = {"--lr", "0.05",           "--momentum",
                                          "0.5",  "--weight-decay", "0.01"};
  const auto expected = losses(2, "plain", flags);
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(losses(2, "own-optimizer", flags), expected);
  EXPECT_THAT(said, HasSubstr("Optimizer: MomentumSGD, lr 0.05, momentum 0.5, weight_decay 0.01"));
  EXPECT_NE(losses(2, "own-optimizer", {"--lr", "0.1"}), expected);

  const Finished named = run(1, "own-optimizer", {"--optimizer", "adam"});
  EXPECT_EQ(named.exit_code, 64);
  EXPECT_THAT(named.err, HasSubstr("--optimizer"));
  EXPECT_THAT(run(1, "own-optimizer", {"--help", "all"}).out,
              AllOf(Not(HasSubstr("--optimizer")), HasSubstr("--weight-decay")));
}

// Of the 50 test examples; with --gpu where the environment names a simulated one.
TEST_F(OwnProgram, EvaluatorReportsOtherMetrics) {
  double squares = 0;
  for (int i = 0; i < 50; ++i) {
    const double sum = (i % 7) / 7.0 + (i % 11) / 11.0;
    squares += sum * sum;
  }
  std::vector<std::string> flags = {"-b", "16"};
  if (std::getenv("TASUKI_CUDA_LIBRARY") != nullptr) flags.push_back("--gpu");
  losses(2, "own-evaluator", flags);
  const auto entries = log_in(folder / "result/log");
  ASSERT_FALSE(entries.empty()) << said;
  ASSERT_EQ(values_of(entries, "validation/main/loss").size(), 2u);
  expect_near(values_of(entries, "validation/main/power"), {squares / 50, squares / 50}, 1e-6);
}

TEST_F(OwnProgram, ReportsItsCheckOnceBeforeMakingData) {
  const Finished job = run(2, "plain", {"--least-ranks", "3"});
  EXPECT_EQ(job.exit_code, 64) << job.all();
  EXPECT_EQ(count_of(job.err, "--least-ranks 3: the job has 2"), 1) << job.err;
  EXPECT_EQ(count_of(job.err, "made"), 0) << job.err;
  EXPECT_EQ(run(2, "plain", {"--least-ranks", "2", "--dry-run"}).exit_code, 0);
}

// Rank 0, too, has its share only while it trains.
TEST_F(OwnProgram, KeepsTheWholeDataOnNoRank) {
  EXPECT_FALSE(losses(2, "plain", {}).empty());
  EXPECT_EQ(count_of(said, "whole data sets in memory: 0"), 2) << said;
  // Shares of data that every rank has are views.
  EXPECT_FALSE(losses(2, "data-everywhere", {}).empty());
  EXPECT_EQ(count_of(said, "whole data sets in memory: 2"), 2) << said;
}

TEST_F(OwnProgram, DoesNotSendDataThatEveryRankHas) {
  const auto expected = losses(2, "plain", {});
  EXPECT_EQ(count_of(said, "made training data"), 1) << said;
  EXPECT_EQ(losses(2, "data-everywhere", {}), expected);
  EXPECT_EQ(count_of(said, "made training data"), 2) << said;
  EXPECT_EQ(count_of(said, "made test data"), 2) << said;
  // --examples takes the same first ones.
  const auto first = losses(2, "plain", {"--examples", "40", "--test-examples", "10"});
  EXPECT_NE(first, expected);
  EXPECT_EQ(losses(2, "data-everywhere", {"--examples", "40", "--test-examples", "10"}), first);
}

// Where a run's targets were not hashed, they are not compared.
TEST_F(OwnProgram, CanMoveDataToEveryRankAndBack) {
  for (const char* const kind : {"plain", "data-everywhere", "plain"}) {
    static int epochs = 0;
    const Finished job =
        run(2, kind,
            {"--out", folder / "moved", "--resume", "auto", "--epoch", std::to_string(++epochs)});
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(count_of(job.all(), "other data"), 0) << job.all();
  }
}

// With --gpu where the environment names a simulated one, as above.
TEST_F(OwnProgram, EvaluatorCanBeAnyExtension) {
  std::vector<std::string> flags = {"-b", "16"};
  if (std::getenv("TASUKI_CUDA_LIBRARY") != nullptr) flags.push_back("--gpu");
  losses(2, "largest-sum", flags);
  const auto entries = log_in(folder / "result/log");
  ASSERT_FALSE(entries.empty()) << said;
  double largest = 0;
  for (int i = 0; i < 50; ++i) largest = std::max(largest, (i % 7) / 7.0 + (i % 11) / 11.0);
  expect_near(values_of(entries, "validation/largest"), {largest, largest}, 1e-5);
}

// Adam's own decay does not come from a flag.
TEST_F(OwnProgram, ResumesWithItsAdamDecay) {
  const auto whole = losses(1, "own-adam", {"--epoch", "2"});
  losses(1, "own-adam", {"--epoch", "1"});
  EXPECT_EQ(losses(1, "own-adam", {"--epoch", "2", "--resume", "auto"}), whole);
  EXPECT_EQ(count_of(said, "warning"), 0) << said;

  losses(1, "own-adam", {"--epoch", "1"});
  losses(1, "own-adam", {"--epoch", "2", "--resume", "auto", "--decay", "0.125"});
  EXPECT_EQ(count_of(said, "warning"), 1) << said;
  EXPECT_THAT(said, HasSubstr("weight_decay_rate 0.01, this run does by 0.125"));
  const auto own_decay = [](const std::string& snapshot) {
    const NpzFile file(snapshot);
    const auto rate =
        std::get<Tensor>(file.read("updater/optimizer:main/hyperparameters/weight_decay_rate"));
    return *rate.data<double>();
  };
  EXPECT_EQ(own_decay(folder / "result/snapshot_iter_6"), 0.125);
}

// Also where the flag is given again, as when a job is restarted.
TEST_F(OwnProgram, ResumesItsSchedule) {
  for (const std::vector<std::string>& lr : {std::vector<std::string>{}, {"--lr", "0.1"}}) {
    const auto whole = losses(1, "own-schedule", with({"--epoch", "2"}, lr));
    losses(1, "own-schedule", with({"--epoch", "1"}, lr));
    EXPECT_EQ(losses(1, "own-schedule", with({"--epoch", "2", "--resume", "auto"}, lr)), whole);
    EXPECT_EQ(count_of(said, "settings that differ"), 0) << said;
  }
  losses(1, "own-schedule", {"--epoch", "1"});
  losses(1, "own-schedule", {"--epoch", "2", "--resume", "auto", "--lr", "0.5"});
  EXPECT_EQ(count_of(said, "settings that differ from the snapshot's: lr 0.5 instead of 0.04"), 1)
      << said;
}

// The loss and the weights alone end a run.
TEST_F(OwnProgram, AcceptsNonFiniteMetrics) {
  const std::vector<std::string> flags = {"--epoch",    "3", "--early-stopping", "main/precision",
                                          "--patience", "1", "--keep-best",      "main/psnr"};
  EXPECT_EQ(losses(2, "own-metrics", flags), losses(2, "plain", {"--epoch", "3"}));
  losses(2, "own-metrics", {"--epoch", "1"});
  losses(2, "own-metrics", {"--epoch", "2", "--resume", "auto"});
  const auto entries = log_in(folder / "result/log");
  ASSERT_GT(entries.size(), 1U) << said;
  for (const auto& entry : entries) {
    EXPECT_TRUE(entry.at("main/precision").is_null());
    EXPECT_TRUE(entry.at("main/psnr").is_null());
  }
}

// Only the iterator of a program knows how many steps its epochs have.
TEST_F(OwnProgram, ResumesWithinItsEpochs) {
  const std::vector<std::string> batch = {"-b", "60", "--epoch", "2"};
  const auto whole = losses(2, "short-epochs", batch);
  EXPECT_EQ(whole.size(), 2U * 2 + 2) << said;
  losses(2, "short-epochs", with(batch, {"--max-iterations", "1"}));
  const Finished other =
      run(2, "short-epochs",
          {"-b", "30", "--epoch", "2", "--out", folder / "result", "--resume", "auto"});
  EXPECT_EQ(other.exit_code, 78) << other.all();
  EXPECT_EQ(count_of(other.err, "the snapshot is from step 1 of an epoch with"), 1) << other.err;
  EXPECT_EQ(run(2, "short-epochs",
                with(batch, {"--out", folder / "result", "--resume", "auto", "--dry-run"}))
                .exit_code,
            0);
  EXPECT_EQ(losses(2, "short-epochs", with(batch, {"--resume", "auto"})), whole);
}

TEST_F(OwnProgram, RejectsNoDecay1dWithoutADecay) {
  const auto expect_refused = [&](const std::string& kind, const std::vector<std::string>& flags) {
    const Finished job = run(2, kind, with({"--no-decay-1d", "--out", folder / "refused"}, flags));
    EXPECT_EQ(job.exit_code, 64) << job.all();
    EXPECT_EQ(count_of(job.err, "add --weight-decay"), 1) << job.err;
    EXPECT_EQ(count_of(job.err, "made"), 0) << job.err;
  };
  expect_refused("plain", {});
  expect_refused("plain", {"--lars"});
  expect_refused("plain", {"--optimizer", "adamw"});
  expect_refused("own-optimizer", {});
  EXPECT_FALSE(losses(2, "plain", {"--no-decay-1d", "--weight-decay", "0.1"}).empty());
  // Where a run without the flag decays, one with the flag has other losses.
  for (const char* const kind : {"own-hook", "own-adam"})
    EXPECT_NE(losses(1, kind, {"--no-decay-1d", "--decay", "0.5"}),
              losses(1, kind, {"--decay", "0.5"}));

  // A run goes on without the decay, and needs not know that the snapshot's had the flag.
  losses(1, "plain", {"--epoch", "1", "--no-decay-1d", "--weight-decay", "0.1"});
  losses(1, "plain", {"--epoch", "2", "--resume", "auto", "--weight-decay", "0"});
  EXPECT_THAT(said, HasSubstr("iteration 3"));
}

// Data that every rank has may have transforms of their own.
TEST_F(OwnProgram, PlansTransformedDataAsTrained) {
  for (const char* const kind : {"transformed", "transformed-sequences"}) {
    SCOPED_TRACE(kind);
    EXPECT_FALSE(losses(2, kind, {"--epoch", "1"}).empty());
    const Finished plan = run(2, kind, {"--dry-run"});
    EXPECT_EQ(plan.exit_code, 0) << plan.all();
    EXPECT_THAT(plan.out, HasSubstr("Steps: "));
    const Finished search = run(2, kind, {"--find-batchsize"});
    EXPECT_EQ(search.exit_code, 0) << search.all();
    EXPECT_THAT(search.out, HasSubstr("--batchsize"));
    if (kind == std::string("transformed")) continue;
    EXPECT_GT(count_of(plan.err, "padded to 300 on trial"), 0) << plan.all();
    EXPECT_GT(count_of(search.err, "padded to 300 on trial"), 3) << search.all();
  }
}

TEST_F(OwnProgram, RunsOnceWhenTasukiOwnsMpi) {
  const Finished job = run(2, "twice", {"--out", folder / "result", "--quiet"});
  EXPECT_EQ(job.exit_code, 70) << job.all();
  EXPECT_EQ(count_of(job.err, "MPI has been finalised in this process and cannot be started again"),
            1)
      << job.all();
  EXPECT_TRUE(std::filesystem::exists(folder / "result/log")) << "of the first run";
}

TEST_F(OwnProgram, RunsRepeatedlyWhenItOwnsMpi) {
  for (const int np : {1, 2}) {
    const std::filesystem::path out = folder / fmt::format("of{}", np);
    const Finished job = run(np, "own-mpi", {"--out", out, "--quiet"});
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_TRUE(std::filesystem::exists(out / "log"));
    EXPECT_TRUE(std::filesystem::exists(out.string() + "-2/log")) << "of the second run";
    EXPECT_EQ(count_of(job.err, "as before\n"), 2 * np) << "errors of MPI: " << job.all();
    EXPECT_EQ(count_of(job.err, "finalised\n"), np) << job.all();
  }
}

// All results come into the folder that the flag named at the start.
TEST_F(OwnProgram, CanChangeTheWorkingFolder) {
  const Finished job = run_program(
      mpirun(2,
             {OWN_PROGRAM, "moving", "--threads", "1", "--out", "result", "--checkpoint-every",
              "2it", "--snapshot-every", "1", "--monitor", "0.1", "--trace", "steps.json"},
             {"-wdir", folder.path()}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_THAT(job.out, HasSubstr("Output: result\n"));
  EXPECT_THAT(job.out, HasSubstr("; results in result\n"));
  EXPECT_EQ(count_of(job.err, "was removed"), 0) << job.all();
  for (const char* const name : {"log", "latest", "about.json", "snapshot_iter_4"})
    EXPECT_TRUE(std::filesystem::exists(folder / "result" / name)) << name;
  EXPECT_GT(std::filesystem::file_size(folder / "steps.json"), 0u);
  for (const char* const elsewhere : {"/result", "/steps.json"})
    EXPECT_FALSE(std::filesystem::exists(elsewhere));
}

}  // namespace
}  // namespace tasuki::testing
