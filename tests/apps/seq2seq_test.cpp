// train_seq2seq as users start it.

#include <set>

#include "seq2seq/dates.hpp"
#include "seq2seq/pairs.hpp"
#include "tasuki/core/error.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

// A job without --data, which this program does not have.
class TrainSeq2seq : public ::testing::Test {
 protected:
  Finished run(int np, const std::string& out, const std::vector<std::string>& flags) {
    std::vector<std::string> words = {TRAIN_SEQ2SEQ, "--threads", "1", "--out", folder / out};
    if (std::ranges::count(flags, "--resume") == 0) words.push_back("--overwrite");
    return run_program(mpirun(np, with(words, flags)));
  }
  nlohmann::json log_of(int np, const std::string& out, const std::vector<std::string>& flags) {
    const Finished job = run(np, out, flags);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    std::ifstream file(folder / (out + "/log"));
    return file ? nlohmann::json::parse(file) : nlohmann::json::array();
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return folder / name;
  }

  TemporaryFolder folder;
  const std::vector<std::string> small = {"--unit",
                                          "24",
                                          "--layer",
                                          "2",
                                          "--shards",
                                          "2",
                                          "--examples",
                                          "600",
                                          "--epoch",
                                          "2",
                                          "--test-examples",
                                          "50",
                                          "--bleu",
                                          "--lr",
                                          "0.01",
                                          "--log-every",
                                          "1",
                                          "--global-batch",
                                          "64",
                                          "--bucket-steps",
                                          "4"};
};

TEST_F(TrainSeq2seq, LossesAreTheSameForAnyNumberOfRanks) {
  const auto one = log_of(1, "np1", small), two = log_of(2, "np2", small);
  const auto losses = values_of(one, "main/loss");
  ASSERT_EQ(losses.size(), 20U);
  EXPECT_LT(losses.back(), 0.9 * losses.front()) << "too little happened to compare";
  expect_near(values_of(two, "main/loss"), losses, 1e-3);
  for (const char* key : {"validation/main/loss", "validation/main/bleu"}) {
    const auto values = values_of(one, key);
    ASSERT_EQ(values.size(), 2U) << key;
    EXPECT_GT(values[1], 0) << key;
    expect_near(values_of(two, key), values, 0.05);
  }
  EXPECT_EQ(values_of(two, "validation/main/exact").size(), 2U);
}

TEST_F(TrainSeq2seq, AResumedRunGoesOnAsIfItHadNotStopped) {
  const auto whole = log_of(2, "whole", small);
  log_of(2, "cut", with(small, {"--max-iterations", "14"}));
  // Other buckets would deal this epoch's examples in another order.
  const Finished refused = run(2, "cut", with(small, {"--resume", "auto", "--bucket-steps", "5"}));
  EXPECT_EQ(refused.exit_code, 78) << refused.all();
  EXPECT_NE(refused.err.find("bucket_steps 4; this run has bucket_steps 5"), std::string::npos)
      << refused.all();
  const auto resumed = log_of(2, "cut", with(small, {"--resume", "auto"}));
  EXPECT_EQ(values_of(resumed, "main/loss"), values_of(whole, "main/loss"));
}

// Where TASUKI_CUDA_LIBRARY names a simulated GPU.
TEST_F(TrainSeq2seq, GpuTrainsLikeTheProcessor) {
  const std::vector<std::string> flags = {
      "--unit", "8",  "--layer", "2",       "--examples", "40",          "--test-examples",
      "6",      "-b", "8",       "--epoch", "2",          "--log-every", "1"};
  const auto cpu = log_of(1, "cpu", flags), gpu = log_of(1, "gpu", with(flags, {"--gpu"}));
  ASSERT_EQ(values_of(cpu, "main/loss").size(), 10U);
  for (const char* key : {"main/loss", "validation/main/loss"})
    expect_near(values_of(gpu, key), values_of(cpu, key), 1e-4);
}

TEST_F(TrainSeq2seq, FilesOfSentencesAreLearned) {
  std::string source, target;
  for (int i = 0; i < 60; ++i) {
    source += i % 3 == 0 ? "the  cat sleeps\n" : "a dog\tbarks loudly\n";
    target += i % 3 == 0 ? "die katze schlaeft\n" : "ein hund bellt laut\n";
    if (i == 10) source += "\n", target += "zu viel\n";
  }
  const auto log =
      log_of(2, "files",
             {"--source", write("train.en", source), "--target", write("train.de", target),
              "--test-source", folder / "train.en", "--test-target", folder / "train.de", "--unit",
              "32", "--layer", "1", "-b", "10", "--lr", "0.02", "--stop", "8e", "--bleu"});
  ASSERT_EQ(log.size(), 8U);
  EXPECT_EQ(log.back().at("validation/main/exact"), 1);
  EXPECT_EQ(log.back().at("validation/main/bleu"), 1);
}

TEST_F(TrainSeq2seq, BadInputIsOneLine) {
  const std::string two = write("two", "a\nb\n"), three = write("three", "a\nb\nc\n"),
                    empty = write("empty", "\n"), long_lines = write("long", "a b c d\ne f g h\n");
  struct Case {
    std::vector<std::string> flags;
    std::string line;
    ErrorKind kind;
  };
  const Case cases[] = {
      {{"--source", two, "--target", three}, "two has 2 lines and ", ErrorKind::data},
      {{"--source", empty, "--target", empty}, "empty: expected sentences", ErrorKind::data},
      {{"--source", two, "--target", folder / "none"}, folder / "none", ErrorKind::missing},
      {{"--source", long_lines, "--target", long_lines, "--max-length", "3"},
       "no pair of sentences has 1 to 3 words each",
       ErrorKind::data},
      {{"--source", two}, "--source and --target belong together", ErrorKind::usage},
      {{"--test-source", two, "--test-target", two},
       "expected --source and --target with it",
       ErrorKind::usage},
      {{"--stop", "15"}, "--stop: expected a number of epochs such as 15e", ErrorKind::usage}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.line);
    const Finished job = run(2, "bad", c.flags);
    EXPECT_EQ(job.exit_code, static_cast<int>(c.kind)) << job.all();
    EXPECT_EQ(count_of(job.all(), c.line), 1) << job.all();
  }
}

TEST(Dates, TestDatesAreNotInTheTrainingData) {
  std::set<std::string> trained;
  for (std::int64_t i = 0; i < 5000; ++i) {
    const auto [written, iso] = seq2seq::date_example(3, i, false);
    EXPECT_EQ(seq2seq::date_example(3, i, false).first, written);
    EXPECT_EQ(iso.size(), 10U);
    trained.insert(iso);
  }
  EXPECT_GT(trained.size(), 4000U);
  for (std::int64_t i = 0; i < 1000; ++i)
    EXPECT_FALSE(trained.contains(seq2seq::date_example(3, i, true).second));
}

TEST(Vocabulary, HasTheMostFrequentWords) {
  const seq2seq::Vocabulary words({{"b", "a", "b"}, {"c", "a", "d", "b"}}, 4);
  EXPECT_EQ(words.size(), 4);
  EXPECT_EQ(words.numbers({"b", "a", "c", "<eos>"}), (std::vector<std::int32_t>{2, 3, 1, 1}));
  EXPECT_EQ(words.word(2), "b");
}

}  // namespace
}  // namespace tasuki::testing
