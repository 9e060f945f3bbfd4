// What a JobGuard does when a program with its own MPI fails, hangs or is asked to stop; and what
// happens without one.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/launch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {
namespace {

Finished run(const std::vector<std::string>& arguments) {
  std::vector<std::string> program{GUEST_PROGRAM};
  program.insert(program.end(), arguments.begin(), arguments.end());
  Finished done = run_program(mpirun(2, program), 30);
  EXPECT_FALSE(done.timed_out) << done.all();
  return done;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(JobGuard, EndsTheJobWithOneLineOfTheRankThatFailed) {
  const Finished done = run({"lone-error"});
  EXPECT_EQ(done.exit_code, 70) << done.all();
  EXPECT_TRUE(has(done.err, "rank 1 on ")) << done.err;
  EXPECT_TRUE(has(done.err, ": the loss exploded\n")) << done.err;
  EXPECT_FALSE(has(done.err, "has left")) << done.err;
}

TEST(JobGuard, ReportsExceptionsThatNobodyCatches) {
  const Finished done = run({"uncaught"});
  EXPECT_EQ(done.exit_code, 70) << done.all();
  EXPECT_TRUE(has(done.err, ": nobody catches this\n")) << done.err;
}

TEST(JobGuard, ReportsAnEarlyExit) {
  const Finished done = run({"exit"});
  EXPECT_EQ(done.exit_code, 3) << done.all();
  EXPECT_TRUE(has(done.err, "rank 1 on ")) << done.err;
  EXPECT_TRUE(has(done.err, "called exit(3) in the middle of the job")) << done.err;
}

TEST(JobGuard, EndsAJobInWhichNothingMoves) {
  const Finished done = run({"stall"});
  EXPECT_EQ(done.exit_code, 75) << done.all();
  EXPECT_TRUE(has(done.err, "nothing has moved for")) << done.err;
}

TEST(JobGuard, LetsTrainingSaveAndStopAtASignal) {
  const TemporaryFolder folder;
  const Finished done = run({"stop", folder.path().string()});
  EXPECT_EQ(done.exit_code, 79) << done.all();
  EXPECT_EQ(count_of(done.out, "SIGUSR1 is given back"), 2) << done.out;
  EXPECT_EQ(count_of(done.err, "stopped"), 1) << done.err;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "checkpoints/iter_1/manifest.json"));
}

TEST(JobGuard, LeavesTheProgramsOwnSignalHandlers) {
  const Finished done = run({"own-handler"});
  EXPECT_EQ(done.exit_code, 0) << done.all();
}

TEST(WithoutGuard, TheProgramGoesOnAfterAnErrorInTraining) {
  const Finished done = run({"no-guard"});
  EXPECT_EQ(done.exit_code, 7) << done.all();
  EXPECT_TRUE(has(done.out, "rank 1 caught: the loss exploded\n")) << done.out;
  EXPECT_TRUE(has(done.out, "rank 0 caught: rank 1 on ")) << done.out;
  EXPECT_EQ(count_of(done.out, " simulates on\n"), 2) << done.out;
  EXPECT_EQ(count_of(done.out, "\n"), 4) << done.out;
}

}  // namespace
}  // namespace tasuki::testing
