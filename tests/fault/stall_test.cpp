// A rank that is alive and stuck: the job ends and names it. Ranks that are slow, or stopped and
// continued together, live.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <thread>

#include "launch.hpp"
#include "tasuki/communicator/environment.hpp"
#include "tasuki/core/error.hpp"
#include "temporary_folder.hpp"

namespace tasuki::testing {
namespace {

constexpr const char* stall_seconds = "2";
constexpr double seconds_to_end = 3;

std::vector<std::string> faulty_training(int rank, const std::string& moment,
                                         const std::string& kind, const std::string& folder,
                                         const std::string& seconds = stall_seconds) {
  return {FAULTY_TRAINING, std::to_string(rank), moment, kind, folder, seconds};
}

// Where mpirun puts a job: on `ranks` of this machine, or on nodes with so many slots.
struct Placement {
  int ranks;
  std::string slots;  // empty: this machine

  std::vector<std::string> start(const std::vector<std::string>& program) const {
    if (slots.empty()) return mpirun(ranks, program);
    std::vector<std::string> words = {CLUSTER_RUN, "--slots", slots, "--"};
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  std::string host_of(int rank) const {
    if (slots.empty()) return host_name();
    return rank < slots[0] - '0' ? "node1" : "node2";
  }
};

// The job's error, in one line.
std::string error_line(const std::string& text) {
  const auto at = text.find("; if work may take that long, ");
  if (at == std::string::npos) return "";
  const auto begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

// One rank of a job gets stuck at its third call of `moment`.
void expect_named(const Placement& placement, int rank, const std::string& moment,
                  const std::string& kind, const std::string& state) {
  SCOPED_TRACE(fmt::format("{} in {} of rank {}", kind, moment, rank));
  const TemporaryFolder folder;
  const Finished job =
      run_program(placement.start(faulty_training(rank, moment, kind, folder.path())), 40);
  const double end = shared_clock();
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_FALSE(job.timed_out) << job.all();
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::hang)) << job.all();
  double fault_time = 0;
  std::ifstream(folder / "time") >> fault_time;
  EXPECT_GT(fault_time, 0) << job.all();
  EXPECT_LT(end - fault_time, std::stod(stall_seconds) + seconds_to_end) << job.all();

  const std::string line = error_line(job.err);
  EXPECT_EQ(count_of(job.err, "; if work may take that long, "), 1) << job.all();
  const std::string named =
      state.empty() ? "the ranks wait for each other"
                    : fmt::format("rank {} on {} {}", rank, placement.host_of(rank), state);
  EXPECT_NE(line.find(" s: " + named), std::string::npos) << job.all();
  // It alone is named: what follows are those who wait for it.
  const std::string said = line.substr(std::min(line.size(), line.find("nothing has moved")));
  EXPECT_EQ(count_of(said, " on "), state.empty() ? 0 : 1) << line;
}

const std::string silent = "gives no sign of life";

class OneNode : public ::testing::TestWithParam<int> {
 protected:
  Placement placement() const { return {GetParam(), ""}; }
};

TEST_P(OneNode, NamesAStoppedRank) {
  expect_named(placement(), 0, "forward", "stop", silent);
  expect_named(placement(), GetParam() - 1, "loader", "stop", silent);
}

TEST_P(OneNode, NamesALoaderWithoutEnd) {
  expect_named(placement(), 1, "loader", "loop",
               "is loading a batch (epoch 1, iteration 3) while ");
}

TEST_P(OneNode, NamesAnEvaluationWithoutEnd) {
  expect_named(placement(), 0, "evaluator", "loop", "is evaluating (epoch 1, iteration ");
}

TEST_P(OneNode, NamesARankThatLeavesOutACollective) {
  // Of two ranks nobody can tell which one is right.
  const std::string in_another = "is waiting in sum_gradients number ";
  expect_named(placement(), 1, "extension", "skip", GetParam() == 2 ? "" : in_another);
}

INSTANTIATE_TEST_SUITE_P(Ranks, OneNode, ::testing::Values(2, 4),
                         [](const auto& info) { return fmt::format("np{}", info.param); });

TEST(TwoNodes, NameAStoppedRankWhereverItIs) {
  for (const int rank : {0, 2, 3}) expect_named({4, "2,2"}, rank, "forward", "stop", silent);
}

TEST(TwoNodes, NameANodeOfWhichNothingIsHeard) {
  for (const int rank : {0, 1}) expect_named({2, "1,1"}, rank, "forward", "stop", silent);
}

TEST(TwoNodes, NameALoaderWithoutEnd) {
  expect_named({4, "2,2"}, 3, "loader", "loop", "is loading a batch (epoch 1, iteration 3) while ");
}

TEST(TwoNodes, NameARankThatLeavesOutACollective) {
  expect_named({4, "2,2"}, 3, "extension", "skip", "is waiting in sum_gradients number ");
}

// Before any rank can see another.
TEST(Start, OfARankThatDoesNotComeEndsToo) {
  const TemporaryFolder folder;
  std::vector<std::string> program = {
      "sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 0 ] || sleep 60; exec \"$@\"", "sh"};
  for (const std::string& word : faulty_training(1, "none", "none", folder.path()))
    program.push_back(word);
  const Finished job = run_program(mpirun(2, program), 40);
  EXPECT_FALSE(job.timed_out) << job.all();
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::hang)) << job.all();
  EXPECT_EQ(count_of(job.err, "error: after 2 s the ranks have not all met"), 1) << job.all();
}

TEST(Patience, WithRanksThatAreSlow) {
  const TemporaryFolder folder;
  const Finished job = run_program(mpirun(2, faulty_training(1, "loader", "slow", folder.path())));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_GT(job.seconds, std::stod(stall_seconds));
  EXPECT_EQ(count_of(job.err, "nothing has moved"), 0) << job.all();
}

TEST(Patience, WithAJobThatIsStoppedAndContinued) {
  const TemporaryFolder folder;
  auto job = std::async(std::launch::async, [&] {
    return run_program(mpirun(2, faulty_training(1, "loader", "slow", folder.path())));
  });
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    pid_t process = 0;
    while (!(std::ifstream(folder / fmt::format("pid.{}", rank)) >> process))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ranks.push_back(process);
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  for (const pid_t process : ranks) EXPECT_EQ(kill(process, SIGSTOP), 0);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  for (const pid_t process : ranks) EXPECT_EQ(kill(process, SIGCONT), 0);
  const Finished finished = job.get();
  EXPECT_EQ(finished.exit_code, 0) << finished.all();
  EXPECT_EQ(count_of(finished.err, "nothing has moved"), 0) << finished.all();
}

}  // namespace
}  // namespace tasuki::testing
