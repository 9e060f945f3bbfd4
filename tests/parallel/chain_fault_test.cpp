// A job whose ranks wait for each other in functions between ranks ends, and names who is behind.
#include <gmock/gmock.h>

#include "core/error.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/paths.hpp"

namespace tasuki::testing {
namespace {

using ::testing::ContainsRegex;

// The line that ends the job.
std::string line_of(int ranks, const std::string& kind) {
  const Finished job = run_program(mpirun(ranks, {FAULTY_CHAIN, kind}), 30);
  EXPECT_FALSE(job.timed_out) << job.all();
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::hang)) << job.all();
  const auto at = job.err.find("that long, ");
  if (at == std::string::npos) return job.all();
  const auto begin = job.err.rfind('\n', at) + 1;
  return job.err.substr(begin, job.err.find('\n', at) - begin);
}

TEST(FaultyChains, NameRankThatSendsNoGradient) {
  EXPECT_THAT(line_of(3, "backward"),
              ContainsRegex("rank 1 on .* is waiting in barrier .* while 2 ranks wait in recv from "
                            "rank 1"));
}

TEST(FaultyChains, NameRankAtTheEndOfAChain) {
  EXPECT_THAT(line_of(4, "chain"),
              ContainsRegex("rank 3 on .* is waiting in barrier .* while rank 2 "
                            "waits in recv from rank 3"));
}

// Not its number in the group, nor the rank that it keeps waiting.
TEST(FaultyChains, NameRanksOfAGroupByJobNumber) {
  EXPECT_THAT(line_of(4, "split"),
              ContainsRegex("rank 3 on .* is waiting in barrier .* while rank 2 "
                            "waits in recv from rank 3"));
}

TEST(FaultyChains, NameRankInAnotherCollective) {
  EXPECT_THAT(line_of(3, "collective"), ContainsRegex("rank 2 on .* is waiting in barrier "));
}

TEST(FaultyChains, EndWithTheErrorOfAStage) {
  for (const int ranks : {1, 2, 4}) {
    const Finished job = run_program(mpirun(ranks, {FAULTY_CHAIN, "pipeline"}), 30);
    EXPECT_FALSE(job.timed_out) << job.all();
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::data)) << job.all();
    EXPECT_THAT(job.err, ContainsRegex(fmt::format("rank {} on .*: a bad example", ranks - 1)))
        << job.all();
  }
}

}  // namespace
}  // namespace tasuki::testing
