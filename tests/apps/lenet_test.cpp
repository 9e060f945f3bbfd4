// train_lenet as users start it, and through it the flags of all programs that decide on batches
// and learning rates.

#include "core/error.hpp"
#include "tests/support/digits.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

class TrainLenet : public TrainingJob {
 protected:
  TrainLenet() : TrainingJob({TRAIN_LENET, "--conv", "direct"}) { write_digits(data, 480, 60); }
};

TEST_F(TrainLenet, UsesTheBooksDefaults) {
  const Finished job = run(1, "result", {"--print-config"});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  for (const char* line : {"\nbatchsize = 256 ", "\nglobal-batch = 256 ", "\nepoch = 10 ",
                           "\noptimizer = sgd ", "\nlr = 0.2 ", "\nlr-scaling = none "})
    EXPECT_EQ(count_of(job.out, line), 1) << line << job.out;
}

// The same global batches, dealt to the same virtual shards: training does not depend on the number
// of ranks, also where that does not divide the batch.
TEST_F(TrainLenet, GivesTheSameLossesOnAnyNumberOfRanks) {
  const std::vector<std::string> flags = {
      "--shards",         "6",  "--global-batch", "64",   "--log-every", "1",
      "--max-iterations", "22", "--optimizer",    "adam", "--lr",        "0.003",
      "--epoch",          "3"};
  const auto one = log_of(1, "np1", flags);
  const auto losses = values_of(one, "main/loss");
  ASSERT_EQ(losses.size(), 22u);
  EXPECT_LT(losses.back(), 0.8 * losses.front()) << "too little happened to compare";
  for (const int np : {2, 3}) {
    SCOPED_TRACE(np);
    const auto log = log_of(np, "np" + std::to_string(np), flags);
    expect_near(values_of(log, "main/loss"), losses, 1e-3);
    ASSERT_EQ(values_of(one, "validation/main/accuracy").size(), 2u);
    expect_near(values_of(log, "validation/main/accuracy"),
                values_of(one, "validation/main/accuracy"), 0.1);
  }
}

TEST_F(TrainLenet, LogsACutRunWithoutEvaluating) {
  const Finished job = run(2, "cut", {"--max-iterations", "3", "-b", "24", "--print-every", "2"});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  EXPECT_NE(job.out.find("24 per rank, 48 together"), std::string::npos) << job.out;
  EXPECT_EQ(count_of(job.out, "step 2, loss = 2.3"), 1) << job.out;
  EXPECT_EQ(count_of(job.out, " examples/sec; "), 1) << job.out;
  EXPECT_EQ(count_of(job.out, "epochs: "), 0) << "no epoch was whole";
  const auto log = read_log("cut");
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].at("iteration"), 3);
  EXPECT_TRUE(log[0].contains("main/loss"));
  EXPECT_FALSE(log[0].contains("validation/main/loss"));
}

TEST_F(TrainLenet, SummarisesEpochsAndAccuracy) {
  const Finished job = run(1, "result", {"--epoch", "2", "--examples", "64"});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.out, " s (first), "), 1) << job.out;
  EXPECT_EQ(count_of(job.out, " s (median of the other 1)\n"), 1) << job.out;
  EXPECT_EQ(count_of(job.out, "validation accuracy: 0."), 1) << job.out;
}

TEST_F(TrainLenet, AdjustsLearningRateForBatchScheduleAndWarmup) {
  const auto log =
      log_of(1, "result",
             {"--examples", "64", "--test-examples", "2", "--global-batch", "32", "--lr-scaling",
              "linear", "--lr-reference-batch", "64", "--warmup", "2", "--lr-schedule", "steps"});
  // 0.2 x 32 / 64; half of it when the first of two epochs ends; a tenth of it after 5 epochs of
  // 10, a hundredth after 8.
  expect_near(values_of(log, "lr"), {0.05, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001},
              1e-9);
}

TEST_F(TrainLenet, RejectsBadFlagsInOneLine) {
  struct Case {
    std::vector<std::string> flags;
    std::string line;
  };
  const Case cases[] = {
      {{"--global-batch", "1"}, "--global-batch: expected at least 2 (one example per rank)"},
      {{"--global-batch", "x"},
       "--global-batch: expected an integer from 1 to 16777216, or 'none'"},
      {{"--momentum", "0.5"}, "--momentum: SGD has none"},
      {{"--optimizer", "adadelta", "--lr", "auto", "--warmup", "1"}, "leave --warmup out"},
      {{"--conv", "fft"}, "--conv: expected one of"}};
  for (const Case& c : cases) {
    std::vector<std::string> words = {TRAIN_LENET};
    const Finished job = run_program(mpirun(2, with(words, c.flags)));
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::usage)) << job.all();
    EXPECT_EQ(count_of(job.all(), c.line), 1) << c.line << "\n--- in ---\n" << job.all();
  }
}

}  // namespace
}  // namespace tasuki::testing
