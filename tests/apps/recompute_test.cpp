// --recompute as users meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.hpp"
#include "tests/support/launch.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RecomputeFlag : public ::testing::Test {
 protected:
  RecomputeFlag() {
    std::ofstream file(folder / "text");
    for (std::int64_t i = 0; i < 4000; ++i) file << "abcdefgh ijk\n"[i * i % 13];
  }
  std::vector<std::string> words(const std::string& out,
                                 const std::vector<std::string>& flags) const {
    return with({TRAIN_LM, "--data", folder / "text", "--layers", "4", "--heads", "2", "--width",
                 "32", "--context", "32", "--global-batch", "12", "--max-iterations", "6",
                 "--hash-every", "2", "--out", folder / out},
                flags);
  }
  // The hashes of its steps.
  std::string train(int np, const std::vector<std::string>& flags) {
    const std::string out = "out" + std::to_string(++runs_);
    const Finished job = run_program(mpirun(np, words(out, flags)));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    printed = job.all();
    std::ifstream file(folder / out / "hashes");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder folder;
  std::string printed;  // by the last run

 private:
  int runs_ = 0;
};

TEST_F(RecomputeFlag, HasTheSameBits) {
  for (const int np : {1, 2}) {
    const std::string expected = train(np, {});
    EXPECT_THAT(expected, HasSubstr("6"));
    EXPECT_THAT(printed, Not(HasSubstr("ecompute")));
    EXPECT_EQ(train(np, {"--recompute", "all"}), expected);
    EXPECT_THAT(printed, HasSubstr("Recomputed blocks: all\n"));
    EXPECT_EQ(train(np, {"--recompute", "auto"}), expected);
    EXPECT_THAT(printed, HasSubstr("0 of 4 blocks are recomputed"));
  }
}

TEST_F(RecomputeFlag, WorksWithOtherFlags) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--accumulate", "2", "--dtype", "bf16"},
        {"--reproducible", "--shards", "4", "--threads", "2"},
        {"--exchange", "overlapped", "--shard", "gradients", "--bucket-mb", "0.02"}})
    EXPECT_EQ(train(2, with(flags, {"--recompute", "all"})), train(2, flags));
}

// The activations that a step keeps are a part of what they were.
TEST_F(RecomputeFlag, ShowsItsMemoryInADryRun) {
  const auto activations = [&](const char* blocks) {
    const Finished job = run_program(words("dry", {"--dry-run", "--recompute", blocks}));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    const std::string text = job.all(), end = " MB activations";
    const std::size_t at = text.find(end);
    EXPECT_NE(at, std::string::npos) << text;
    EXPECT_EQ(text.find("recomputes all blocks") != std::string::npos,
              std::string_view(blocks) != "none");
    return std::stod(text.substr(text.rfind(' ', at - 1), at));
  };
  EXPECT_LT(activations("all"), 0.5 * activations("none"));
  EXPECT_EQ(activations("auto"), activations("all"));
}

// Between what all and none of the blocks need.
TEST_F(RecomputeFlag, AutoKeepsWhatFits) {
  // 60 MB of activations with none, on top of what the process takes.
  const std::vector<std::string> large = {"--global-batch",   "256", "--width",          "128",
                                          "--probe",          "off", "--threads",        "1",
                                          "--max-iterations", "2",   "--loader-threads", "0"};
  int trained = 0, recomputed = 0;
  for (int megabytes = 2400; megabytes >= 400; megabytes -= 200) {
    const std::string limit = std::to_string(1024 * megabytes);
    std::string command = "ulimit -v " + limit + "; exec";
    for (const std::string& word : words("limited", with(large, {"--recompute", "auto"})))
      command += " '" + word + "'";
    const Finished job = run_program({"bash", "-c", command});
    if (job.exit_code != 0) break;  // not even with all blocks recomputed
    ++trained;
    if (job.all().find("--recompute auto: 0 of 4") == std::string::npos) ++recomputed;
  }
  EXPECT_GT(trained, recomputed);
  EXPECT_GT(recomputed, 0);
}

TEST_F(RecomputeFlag, RefusesModelsWithoutBlocks) {
  const Finished job =
      run_program({OWN_PROGRAM, "plain", "--recompute", "all", "--out", folder / "plain"});
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::usage)) << job.all();
  EXPECT_THAT(job.err, HasSubstr("--recompute: the model has no blocks"));
}

}  // namespace
}  // namespace tasuki::testing
