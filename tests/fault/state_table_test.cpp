// SIGUSR2: a table of what all ranks are doing, after which the job goes on.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {
namespace {

using Words = std::vector<std::string>;

constexpr const char* header = "iteration    memory         for  state\n";

// The state of a rank in the table, after its host, place in the training and memory have been
// checked; empty if there is no such row.
std::string state_of(const std::string& text, int rank, const std::string& host,
                     const std::string& epoch, const std::string& iteration) {
  const std::regex row(fmt::format(R"(\n +{} +{} +{} +{} +[0-9.]+ [MG]iB +[0-9.]+ s  ([^\n]+))",
                                   rank, host, epoch, iteration));
  std::smatch found;
  return std::regex_search(text, found, row) ? found[1].str() : "";
}

// Rank 0 sends the signal in its third forward pass. Others may not have all that it had sent them
// before, or be about to begin.
void expect_table(const Words& program, int ranks, const std::function<std::string(int)>& host_of) {
  const Finished job = run_program(program, 40);
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, header), 1) << job.all();
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string state = state_of(job.err, rank, host_of(rank), "1", "[23]");
    if (rank == 0)
      EXPECT_EQ(state, "computing") << job.all();
    else
      EXPECT_TRUE(state.starts_with("computing") || state == "loading a batch") << job.all();
  }
}

TEST(StateTable, ShowsASingleProcess) {
  const TemporaryFolder folder;
  expect_table({FAULTY_TRAINING, "0", "forward", "ask", folder.path()}, 1,
               [](int) { return host_name(); });
}

TEST(StateTable, ShowsAllRanks) {
  constexpr int ranks = 3;
  const TemporaryFolder folder;
  expect_table(mpirun(ranks, {FAULTY_TRAINING, "0", "forward", "ask", folder.path()}), ranks,
               [](int) { return host_name(); });
}

TEST(StateTable, ShowsAllNodes) {
  const TemporaryFolder folder;
  expect_table({CLUSTER_RUN, "--", FAULTY_TRAINING, "0", "forward", "ask", folder.path()}, 4,
               [](int rank) { return rank < 2 ? "node1" : "node2"; });
}

TEST(StateTable, IsPrintedBeforeTraining) {
  const TemporaryFolder folder;
  const Finished job =
      run_program(mpirun(2, {FAULTY_TRAINING, "0", "start", "ask", folder.path()}), 40);
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, header), 1) << job.all();
  for (const int rank : {0, 1})
    EXPECT_TRUE(state_of(job.err, rank, host_name(), "-", "-").starts_with("running the program's"))
        << job.all();
}

// One table for each second in which signals came.
TEST(StateTable, IsPrintedWhileRanksAreStuck) {
  const TemporaryFolder folder;
  double last = 0;
  const Finished job =
      run_program(mpirun(2, {FAULTY_TRAINING, "1", "loader", "loop", folder.path(), "4"}), 40, {},
                  [&](pid_t program) {
                    if (!std::filesystem::exists(folder / "time")) return;
                    if (last == 0) last = shared_clock();
                    if (shared_clock() - last < 1.2) return;
                    last = shared_clock();
                    pid_t rank_0 = 0;
                    std::ifstream(folder / "pid.0") >> rank_0;
                    kill(has_hydra() ? rank_0 : program, SIGUSR2);
                  });
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::hang)) << job.all();
  EXPECT_GE(count_of(job.err, header), 2) << job.all();
  EXPECT_EQ(state_of(job.err, 1, host_name(), "1", "3"), "loading a batch") << job.all();
  EXPECT_TRUE(state_of(job.err, 0, host_name(), "1", "3")
                  .starts_with("computing, waiting in sum_gradients number "))
      << job.all();
}

}  // namespace
}  // namespace tasuki::testing
