// --reproducible as users meet it: what they are told, and faults that tasuki-diff finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/launch.hpp"
#include "training_job.hpp"

namespace tasuki::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Reproducible : public ::testing::Test {
 protected:
  // 40 examples and batches of 16: two of a shard, then one.
  std::vector<std::string> words(const std::string& kind, const std::string& out,
                                 const std::vector<std::string>& flags) const {
    return with({OWN_PROGRAM, kind, "--reproducible", "--shards", "8", "--global-batch", "16",
                 "--examples", "40", "--epoch", "9", "--max-iterations", "10", "--hash-every", "1",
                 "--threads", "1", "--out", folder / out},
                flags);
  }
  Finished train(int np, const std::string& kind, const std::string& out,
                 const std::vector<std::string>& flags = {}) const {
    return run_program(mpirun(np, words(kind, out, flags)));
  }
  void expect_success(const Finished& job) const { EXPECT_EQ(job.exit_code, 0) << job.all(); }
  Finished diff(const std::string& one, const std::string& other) const {
    return run_program({DIFF, folder / one, folder / other});
  }

  TemporaryFolder folder;
};

TEST_F(Reproducible, RunsDoNotDependOnTheirRanks) {
  const Finished one = train(1, "wide", "one");
  expect_success(one);
  EXPECT_THAT(one.all(), HasSubstr("Reproducible: 8 shards of 2 examples, 8 on each rank, each "
                                   "computed by one thread"));
  expect_success(train(2, "wide", "two"));
  expect_success(train(4, "wide", "four"));
  for (const char* const other : {"two", "four"}) {
    const Finished found = diff("one", other);
    EXPECT_EQ(found.exit_code, 0) << found.all();
    EXPECT_THAT(found.out, HasSubstr("No difference found."));
  }
}

TEST_F(Reproducible, RunsRefuseRanksThatDoNotDivideTheShards) {
  const Finished job = train(3, "plain", "three");
  EXPECT_NE(job.exit_code, 0);
  EXPECT_THAT(job.err, AllOf(HasSubstr("--shards 8 and 3 ranks"), HasSubstr("a multiple")));
}

TEST_F(Reproducible, InstructionsCanBeLimited) {
  expect_success(train(2, "wide", "limited", {"--isa", "avx2"}));
  expect_success(
      run_program(with({"env", "DNNL_MAX_CPU_ISA=AVX2"}, words("wide", "environment", {}))));
  const Finished found = diff("limited", "environment");
  EXPECT_EQ(found.exit_code, 0) << found.all();
  // Checkpoints say what was computed with.
  expect_success(train(1, "plain", "out", {"--max-iterations", "5", "--checkpoint-every", "5it"}));
  const Finished lower = train(1, "plain", "out", {"--resume", "auto", "--isa", "avx2"});
  expect_success(lower);
  // A processor without AVX-512 computed with AVX2 before, too.
  EXPECT_EQ(count_of(lower.all(), "the snapshot's run had results computed on"),
            __builtin_cpu_supports("avx512f") ? 1 : 0)
      << lower.all();
}

// The gradients of the two shards have other places in the sum.
TEST_F(Reproducible, SwappedShardsAreFound) {
  expect_success(train(2, "wide", "right"));
  expect_success(train(2, "wide-swapped", "wrong"));
  const Finished found = diff("right", "wrong");
  EXPECT_EQ(found.exit_code, 1) << found.all();
  EXPECT_THAT(found.out, AllOf(HasSubstr("Hashes: iteration 7 differs, first in the gradients"),
                               HasSubstr("before: iterations 1 to 6 are equal"),
                               HasSubstr("  gradients: "), HasSubstr(" arrays differ: ")));
}

TEST_F(Reproducible, RunsSayThatTheyGoOnElsewhere) {
  expect_success(train(1, "plain", "out", {"--max-iterations", "5", "--checkpoint-every", "5it"}));
  const Finished here = train(1, "plain", "out", {"--resume", "auto"});
  expect_success(here);
  EXPECT_THAT(here.all(), Not(HasSubstr("computed on")));
  const Finished elsewhere = run_program(
      with({"env", "DNNL_MAX_CPU_ISA=SSE41", "ONEDNN_MAX_CPU_ISA=SSE41"},
           words("plain", "elsewhere", {"--resume", folder / "out", "--max-iterations", "12"})));
  expect_success(elsewhere);
  EXPECT_THAT(elsewhere.all(), AllOf(HasSubstr("the snapshot's run had results computed on"),
                                     HasSubstr("results may differ in their last bits")));
}

}  // namespace
}  // namespace tasuki::testing
