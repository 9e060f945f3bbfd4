// train_mnist_model_parallel and train_mnist_dual_parallel learn what train_mnist does.
#include <filesystem>

#include "digits.hpp"
#include "part_weights.hpp"
#include "tasuki/core/error.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

using Flags = std::vector<std::string>;

class ModelParallel : public TrainingJob {
 protected:
  ModelParallel() : TrainingJob({"env"}) { write_digits(data, 480, 100); }

  // `program` on the test's data.
  Finished run(const std::string& program_file, int np, const std::string& out,
               const Flags& flags) {
    Flags words = program(out, with({"--unit", "40"}, flags));
    words[0] = program_file;
    return run_program(mpirun(np, words), 60);
  }
  nlohmann::json log_of(const std::string& program_file, int np, const std::string& out,
                        const Flags& flags) {
    const Finished job = run(program_file, np, out, flags);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    return read_log(out);
  }
  void expect_refusal(const std::string& program_file, int np, const Flags& flags,
                      const std::string& text, ErrorKind kind = ErrorKind::usage) {
    const Finished job = run(program_file, np, "refused", flags);
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.err, text), 1) << job.all();
    EXPECT_EQ(count_of(job.err, "error:"), 1) << job.all();
    EXPECT_FALSE(std::filesystem::exists(folder / "refused"));
  }
};

const Flags hundred_steps = {"--optimizer", "momentum_sgd", "--lr",        "0.05",
                             "--epoch",     "10",           "--log-every", "1"};

TEST_F(ModelParallel, TwoRanksLearnWhatOneProcessDoes) {
  const Flags flags = with(hundred_steps, {"-b", "48"});
  const auto one = log_of(TRAIN_MNIST, 1, "one", flags);
  const auto two = log_of(MODEL_PARALLEL, 2, "two", flags);
  ASSERT_EQ(values_of(one, "main/loss").size(), 100U);
  EXPECT_LT(values_of(one, "main/loss").back(), 0.5 * values_of(one, "main/loss").front());
  for (const char* const key :
       {"main/loss", "main/accuracy", "validation/main/loss", "validation/main/accuracy"})
    expect_near(values_of(two, key), values_of(one, key), 1e-4);
  expect_same_weights(folder / "two/snapshot_iter_100", folder / "one/snapshot_iter_100");
}

TEST_F(ModelParallel, PairsOfRanksLearnWhatRanksWithWholeModelsDo) {
  const Flags flags = with(hundred_steps, {"-b", "24"});
  const auto whole = log_of(TRAIN_MNIST, 2, "whole", flags);
  const auto pairs = log_of(DUAL_PARALLEL, 4, "pairs", flags);
  ASSERT_EQ(values_of(whole, "main/loss").size(), 100U);
  for (const char* const key :
       {"main/loss", "main/accuracy", "validation/main/loss", "validation/main/accuracy"})
    expect_near(values_of(pairs, key), values_of(whole, key), 1e-4);
  expect_same_weights(folder / "pairs/snapshot_iter_100", folder / "whole/snapshot_iter_100");
}

TEST_F(ModelParallel, AResumedRunEqualsAWholeOne) {
  const Flags flags = {"-b", "48", "--epoch", "3", "--keep-best", "validation/main/loss"};
  const auto whole = log_of(MODEL_PARALLEL, 2, "whole", flags);
  const Finished half = run(MODEL_PARALLEL, 2, "half", with(flags, {"--max-iterations", "14"}));
  ASSERT_EQ(half.exit_code, 0) << half.all();
  // A later snapshot of which a part is missing was cut off.
  std::filesystem::copy(folder / "half/snapshot_iter_14.0", folder / "half/snapshot_iter_15.0");
  std::filesystem::remove(folder / "half/last_snapshot");
  const auto resumed = log_of(MODEL_PARALLEL, 2, "half",
                              with(flags, {"--resume", folder / "half", "--max-iterations", "30"}));
  expect_near(values_of(resumed, "main/loss"), values_of(whole, "main/loss"), 1e-12);
  expect_near(values_of(resumed, "validation/main/loss"), values_of(whole, "validation/main/loss"),
              1e-12);
  for (const char* const file : {"half/snapshot_best.0", "half/snapshot_best.1"})
    EXPECT_TRUE(std::filesystem::exists(folder / file)) << file;
}

TEST_F(ModelParallel, InitTakesTheWeightsOfEachPart) {
  const auto first = log_of(MODEL_PARALLEL, 2, "first", {"-b", "48", "--epoch", "2"});
  const std::string weights = folder / "first/snapshot_iter_20";
  const Flags still = {"-b",  "48",   "--epoch", "1",      "--optimizer",
                       "sgd", "--lr", "0",       "--init", weights};
  for (const auto& [program, ranks] : {std::pair(MODEL_PARALLEL, 2), {DUAL_PARALLEL, 4}}) {
    const auto again = log_of(program, ranks, "again", with(still, {"--overwrite"}));
    EXPECT_NEAR(values_of(again, "validation/main/loss").back(),
                values_of(first, "validation/main/loss").back(), 1e-6);
  }
  std::filesystem::remove(weights + ".1");
  expect_refusal(MODEL_PARALLEL, 2, {"--init", weights},
                 "snapshot_iter_20.1: ", ErrorKind::missing);
}

TEST_F(ModelParallel, DryRunsPrintThePlan) {
  const Finished job = run(DUAL_PARALLEL, 4, "plan", {"--dry-run", "-b", "24"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.out, "Model: on 2 ranks, 2 times"), 1) << job.all();
  EXPECT_EQ(count_of(job.out, "24 per model, 48 together"), 1) << job.all();
  EXPECT_EQ(count_of(job.out, "Steps: 10 per epoch"), 1) << job.all();
}

TEST_F(ModelParallel, WrongNumbersOfRanksAreRefused) {
  expect_refusal(MODEL_PARALLEL, 1, {}, "expected a multiple of 2 ranks, found 1");
  expect_refusal(MODEL_PARALLEL, 4, {}, "expected 2 ranks, found 4");
  expect_refusal(DUAL_PARALLEL, 1, {}, "expected a multiple of 2 ranks, found 1");
  expect_refusal(DUAL_PARALLEL, 3, {}, "expected a multiple of 2 ranks, found 3");
}

TEST_F(ModelParallel, FlagsForWholeModelsAreRefused) {
  expect_refusal(MODEL_PARALLEL, 2, {"--find-batchsize"}, "--find-batchsize: each rank has a part");
  expect_refusal(MODEL_PARALLEL, 2, {"--clip-norm", "1"}, "--clip-norm: each rank has a part");
}

}  // namespace
}  // namespace tasuki::testing
