// A job whose ranks wait for each other in functions between ranks ends, and names who is behind.
#include <gtest/gtest.h>

#include "launch.hpp"
#include "paths.hpp"
#include "tasuki/core/error.hpp"

namespace tasuki::testing {
namespace {

// The line that ends the job.
std::string line_of(const std::string& kind) {
  const Finished job = run_program(mpirun(3, {FAULTY_CHAIN, kind}), 30);
  EXPECT_FALSE(job.timed_out) << job.all();
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::hang)) << job.all();
  const auto at = job.err.find("that long, ");
  if (at == std::string::npos) return job.all();
  const auto begin = job.err.rfind('\n', at) + 1;
  return job.err.substr(begin, job.err.find('\n', at) - begin);
}

TEST(FaultyChains, NameTheRankThatDoesNotSendAGradient) {
  const std::string line = line_of("backward");
  EXPECT_NE(line.find("rank 1"), std::string::npos) << line;
}

TEST(FaultyChains, NameTheRankThatIsInAnotherCollective) {
  const std::string line = line_of("collective");
  EXPECT_NE(line.find("rank 2"), std::string::npos) << line;
}

}  // namespace
}  // namespace tasuki::testing
