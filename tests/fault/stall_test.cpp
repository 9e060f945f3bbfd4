// A rank that is alive and stuck: the job ends and names it. Slow ranks, and ranks that are stopped
// and continued together, are left alone.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "communicator/mpi/open_mpi.hpp"
#include "core/environment.hpp"
#include "core/error.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {
namespace {

constexpr const char* stall_seconds = "2";
// After a limit: to find it out and to end, on a loaded machine. Less than from here to another
// limit.
constexpr double seconds_to_end = 8;

// Open MPI 5's mpirun may end with 0 when it has lost a host.
void expect_failed(const Finished& job) {
  const bool has_said_so = open_mpi_version >= 5 && count_of(job.err, "lost communication") > 0;
  EXPECT_TRUE(job.exit_code != 0 || has_said_so) << job.all();
}

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
  const auto at = std::min(text.find("; if work may take that long, "),
                           text.find("; if ranks may be stopped for that long, "));
  if (at == std::string::npos) return "";
  const auto begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

struct Ended {
  Finished job;
  double seconds = 0;  // after the fault
};

Ended end_job(const std::vector<std::string>& program, const TemporaryFolder& folder,
              double limit_seconds = 40) {
  Ended ended{run_program(program, limit_seconds)};
  const double end = shared_clock();
  double fault_time = 0;
  std::ifstream(folder / "time") >> fault_time;
  ended.seconds = end - fault_time;
  EXPECT_FALSE(ended.job.timed_out) << ended.job.all();
  const bool is_skipped = ended.job.exit_code == 77;
  EXPECT_TRUE(is_skipped || fault_time > 0) << ended.job.all();
  return ended;
}

// One rank of a job gets stuck at its third call of `moment`. `options`: what faulty_training takes
// after the folder.
void expect_named(const Placement& placement, int rank, const std::string& moment,
                  const std::string& kind, const std::string& state,
                  const std::vector<std::string>& options = {stall_seconds}) {
  SCOPED_TRACE(fmt::format("{} in {} of rank {}", kind, moment, rank));
  const TemporaryFolder folder;
  auto program = faulty_training(rank, moment, kind, folder.path());
  program.pop_back();
  program.insert(program.end(), options.begin(), options.end());
  const Ended ended = end_job(placement.start(program), folder);
  const Finished& job = ended.job;
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::hang)) << job.all();
  EXPECT_LT(ended.seconds, std::stod(stall_seconds) + seconds_to_end * patience()) << job.all();

  const std::string line = error_line(job.err);
  const int endings =
      count_of(job.err, " that long, give it") + count_of(job.err, " that long, programs");
  EXPECT_GE(endings, 1) << job.all();
  // Another node may reach its own limit, half a second later, before the job's end reaches it.
  EXPECT_LE(endings, job.err.find("node2") != std::string::npos ? 2 : 1) << job.all();
  const std::string named =
      state.empty() ? "the ranks wait for each other"
                    : fmt::format("rank {} on {} {}", rank, placement.host_of(rank), state);
  EXPECT_NE(line.find(" s: " + named), std::string::npos) << job.all();
  // Only this rank is named as the culprit, followed by those that wait for it.
  const std::string said = line.substr(std::min(line.size(), line.find("nothing ")));
  EXPECT_EQ(count_of(said, " on "), state.empty() ? 0 : 1) << line;
}

const std::string silent = "gives no sign of life";
// The limit for silence alone, long before the other one.
const std::vector<std::string> silence_only = {"60", stall_seconds};

// A debugger holds a rank for longer than the limits.
void expect_left_alone(const Placement& placement, int rank) {
  const TemporaryFolder folder;
  const Ended ended =
      end_job(placement.start({FAULTY_TRAINING, std::to_string(rank), "forward", "debug",
                               folder.path(), stall_seconds, stall_seconds}),
              folder);
  if (ended.job.exit_code == 77) GTEST_SKIP() << ended.job.all();
  EXPECT_EQ(ended.job.exit_code, 0) << ended.job.all();
  EXPECT_EQ(count_of(ended.job.err, fmt::format("rank {} on {} is stopped by a debugger", rank,
                                                placement.host_of(rank))),
            1)
      << ended.job.all();
  EXPECT_EQ(count_of(ended.job.err, "the job is not ended while a debugger holds"), 1);
}

// mpirun, or the daemon of another node, is stopped and continued: that is only reported.
void expect_launcher_named(const Placement& placement, int rank, const std::string& name) {
  const TemporaryFolder folder;
  const Ended ended = end_job(placement.start({FAULTY_TRAINING, std::to_string(rank), "forward",
                                               "freeze_launcher", folder.path(), "4"}),
                              folder);
  if (ended.job.exit_code == 77) GTEST_SKIP() << ended.job.all();
  EXPECT_EQ(ended.job.exit_code, 0) << ended.job.all();
  const std::string text =
      fmt::format("warning: {} on {} is stopped (process ", name, placement.host_of(rank));
  EXPECT_EQ(count_of(ended.job.err, text), 1) << ended.job.all();
  EXPECT_EQ(count_of(ended.job.err, "kill -CONT "), 1) << ended.job.all();
}

class WatchdogOnOneNode : public ::testing::TestWithParam<int> {
 protected:
  Placement placement() const { return {GetParam(), ""}; }
};

TEST_P(WatchdogOnOneNode, NamesStoppedRank) {
  expect_named(placement(), 0, "forward", "stop", silent);
  expect_named(placement(), GetParam() - 1, "loader", "stop", silent);
}

TEST_P(WatchdogOnOneNode, NamesStoppedRankSoonerOnRequest) {
  expect_named(placement(), 0, "forward", "stop", silent, silence_only);
}

TEST_P(WatchdogOnOneNode, IgnoresRanksHeldByADebugger) {
  expect_left_alone(placement(), GetParam() - 1);
}

TEST_P(WatchdogOnOneNode, ReportsStoppedMpirun) {
  expect_launcher_named(placement(), 0, launcher_name());
}

TEST_P(WatchdogOnOneNode, NamesRankWithEndlessLoader) {
  expect_named(placement(), 1, "loader", "loop",
               "is loading a batch (epoch 1, iteration 3) while ");
}

TEST_P(WatchdogOnOneNode, NamesRankWithEndlessEvaluation) {
  expect_named(placement(), 0, "evaluator", "loop", "is evaluating (epoch 1, iteration ");
}

TEST_P(WatchdogOnOneNode, NamesRankThatSkipsACollective) {
  // With two ranks it cannot be told which one is right.
  const std::string in_another = "is waiting in sum_gradients number ";
  expect_named(placement(), 1, "extension", "skip", GetParam() == 2 ? "" : in_another);
}

INSTANTIATE_TEST_SUITE_P(Ranks, WatchdogOnOneNode, ::testing::Values(2, 4),
                         [](const auto& info) { return fmt::format("np{}", info.param); });

TEST(WatchdogOnTwoNodes, NamesStoppedRankOnEitherNode) {
  for (const int rank : {0, 2, 3}) expect_named({4, "2,2"}, rank, "forward", "stop", silent);
}

TEST(WatchdogOnTwoNodes, NamesSilentNode) {
  for (const int rank : {0, 1}) expect_named({2, "1,1"}, rank, "forward", "stop", silent);
}

TEST(WatchdogOnTwoNodes, NamesStoppedRankSoonerOnRequest) {
  for (const int rank : {1, 2})
    expect_named({4, "2,2"}, rank, "forward", "stop", silent, silence_only);
}

TEST(WatchdogOnTwoNodes, IgnoresRanksHeldByADebugger) {
  expect_left_alone({4, "2,2"}, 2);
}

TEST(WatchdogOnTwoNodes, ReportsStoppedLauncher) {
  expect_launcher_named({4, "2,2"}, 0, launcher_name());
  expect_launcher_named({4, "2,2"}, 3, has_hydra() ? "mpiexec's proxy" : "mpirun's daemon");
}

TEST(WatchdogOnTwoNodes, NamesRankWithEndlessLoader) {
  expect_named({4, "2,2"}, 3, "loader", "loop", "is loading a batch (epoch 1, iteration 3) while ");
}

TEST(WatchdogOnTwoNodes, NamesRankThatSkipsACollective) {
  expect_named({4, "2,2"}, 3, "extension", "skip", "is waiting in sum_gradients number ");
}

// A firewall on the network that comes first does not prevent hosts from reaching each other.
TEST(WatchdogOnTwoNodes, ExchangesHeartbeatsOverAnyNetwork) {
  const TemporaryFolder folder;
  std::vector<std::string> program = {CLUSTER_RUN, "--networks", "2",   "--block-udp",
                                      "1",         "--slots",    "1,1", "--"};
  for (const auto& word : faulty_training(1, "forward", "stop", folder.path(), "60"))
    program.push_back(word);
  program.push_back(stall_seconds);
  const Ended ended = end_job(program, folder);
  if (ended.job.exit_code == 77) GTEST_SKIP() << ended.job.all();
  EXPECT_EQ(ended.job.exit_code, static_cast<int>(ErrorKind::hang)) << ended.job.all();
  EXPECT_NE(ended.job.err.find("rank 1 on node2 gives no sign of life"), std::string::npos)
      << ended.job.all();
  EXPECT_EQ(count_of(ended.job.err, "receives no heartbeats"), 0) << ended.job.all();
}

TEST(WatchdogOnTwoNodes, ReportsMissingHeartbeats) {
  const TemporaryFolder folder;
  std::vector<std::string> program = {CLUSTER_RUN, "--block-udp", "1", "--slots", "1,1", "--"};
  for (const auto& word : faulty_training(1, "loader", "slow", folder.path(), "60"))
    program.push_back(word);
  program.push_back(stall_seconds);
  const Finished job = run_program(program, 40);
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, "node1 receives no heartbeats from node2: "), 1) << job.all();
  EXPECT_EQ(count_of(job.err, "node2 receives no heartbeats from node1: "), 1) << job.all();
}

// Foreign datagrams change neither the culprit nor the time.
TEST(WatchdogUnderDatagramFlood, StillBlamesTheCulprit) {
  expect_named({4, "2,2"}, 3, "forward", "stop", silent, {stall_seconds, "15", "flood"});
  expect_named({4, "2,2"}, 3, "forward", "stop", silent, {"60", stall_seconds, "flood"});
}

TEST(WatchdogUnderDatagramFlood, CountsForeignDatagrams) {
  const TemporaryFolder folder;
  auto program = faulty_training(3, "forward", "stop", folder.path());
  program.insert(program.end(), {"15", "flood"});
  const Ended ended = end_job(Placement{4, "2,2"}.start(program), folder);
  if (ended.job.exit_code == 77) GTEST_SKIP() << ended.job.all();
  const std::string text = "\nignored ";
  const auto at = ended.job.err.find(text);
  ASSERT_NE(at, std::string::npos) << ended.job.all();
  EXPECT_GT(std::stoll(ended.job.err.substr(at + text.size())), 1000) << ended.job.all();
}

// A host that is cut off.
void expect_nothing_left(const Ended& ended, const std::string& host, double limit) {
  if (ended.job.exit_code == 77) GTEST_SKIP() << ended.job.all();
  expect_failed(ended.job);
  EXPECT_LT(ended.seconds, limit * patience()) << ended.job.all();
  EXPECT_NE(ended.job.err.find(host), std::string::npos) << ended.job.all();
  const auto settled = ended.job.out.find("settled after ");
  ASSERT_NE(settled, std::string::npos) << ended.job.all();
  EXPECT_TRUE(ended.job.out.ends_with(" s; left:\n")) << ended.job.all();
}

TEST(HostLoss, EndsAllProcessesOnAllNodes) {
  for (const std::string slots : {"1,1", "2,2"}) {
    SCOPED_TRACE(slots);
    const TemporaryFolder folder;
    const Ended ended =
        end_job({CLUSTER_RUN, "--slots", slots, "--settle", "100", "--", FAULTY_TRAINING,
                 slots == "1,1" ? "1" : "2", "forward", "cut", folder.path(), "60", stall_seconds},
                folder);
    // The limit, 5 s for mpirun, 2 s for a daemon that is told to end, and what a loaded machine
    // adds.
    expect_nothing_left(ended, "node2", 20);
    if (::testing::Test::IsSkipped()) return;
    EXPECT_EQ(count_of(ended.job.err, "error: nothing was heard for "), 1) << ended.job.all();
  }
}

TEST(HostLoss, EndsAllProcessesWithin30SecondsByDefault) {
  const TemporaryFolder folder;
  const Ended ended =
      end_job({CLUSTER_RUN, "--slots", "1,1", "--tune", std::string(HOSTFILES) + "/mca-params.conf",
               "--settle", "100", "--", FAULTY_TRAINING, "1", "forward", "cut", folder.path()},
              folder, 60);
  expect_nothing_left(ended, "node2", 30);
}

// After run.sh --cut: all processes on all nodes.
void expect_ended_within(double seconds, const Finished& job) {
  const std::string before = "all had ended after ";
  const auto at = job.out.find(before);
  ASSERT_NE(at, std::string::npos) << job.all();
  EXPECT_LT(std::stod(job.out.substr(at + before.size())), seconds * patience()) << job.all();
}

// While rank 0 writes and the others wait for it.
TEST(HostLoss, EndsAllProcessesWhileASnapshotIsWritten) {
  const TemporaryFolder folder;
  write_digits(folder / "data", 480, 100);
  const Finished job = run_program({CLUSTER_RUN,
                                    "--slots",
                                    "2,2",
                                    "--tune",
                                    std::string(HOSTFILES) + "/mca-params.conf",
                                    "--cut",
                                    folder / "result/*.tmp*",
                                    "--",
                                    TRAIN_MNIST,
                                    "--data",
                                    folder / "data",
                                    "--unit",
                                    "2000",
                                    "--global-batch",
                                    "480",
                                    "--snapshot-every",
                                    "1",
                                    "--checkpoint-every",
                                    "none",
                                    "--out",
                                    folder / "result"},
                                   100);
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  expect_failed(job);
  expect_ended_within(30, job);
}

// Before any rank can see another.
TEST(JobStart, EndsJobWhenARankNeverStarts) {
  const TemporaryFolder folder;
  std::vector<std::string> program = {
      "sh", "-c", "[ $" + rank_variable() + " = 0 ] || sleep 60; exec \"$@\"", "sh"};
  for (const std::string& word : faulty_training(1, "none", "none", folder.path()))
    program.push_back(word);
  const Finished job = run_program(mpirun(2, program), 40);
  EXPECT_FALSE(job.timed_out) << job.all();
  if (has_hydra())  // its mpiexec is sometimes killed, and Intel's returns 255
    EXPECT_NE(job.exit_code, 0) << job.all();
  else
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::hang)) << job.all();
  EXPECT_EQ(count_of(job.err, "error: after 2 s the ranks have not all met"), 1) << job.all();
}

// The daemon of the host that is cut sends on what a rank prints and waits for the acknowledgement;
// keepalives do not run meanwhile. Where its own device is switched off it cannot send at all.
TEST(JobStart, EndsOnAllNodesWhenAHostFails) {
  if (has_hydra()) GTEST_SKIP() << "Hydra does not notice a host that is cut off";
  const std::string at_switch = "ip -n switch link set node2 down",
                    at_host = "ip -n node2 link set eth0 down";
  for (const auto& [slots, cut] : {std::pair<std::string, std::string>("1,1", at_switch),
                                   {"2,2", at_switch},
                                   {"1,1", at_host}}) {
    SCOPED_TRACE(fmt::format("{}, {}", slots, cut));
    const TemporaryFolder folder;
    const std::string cut_by = slots == "1,1" ? "1" : "2";
    // Output of the lost host's ranks does not arrive.
    const std::string script = fmt::format(
        "[ ${} != {} ] || {{\n"
        "  python3 -c 'import time; print(time.monotonic())' >\"$0/time\"\n"
        "  {}; echo unheard; }}\n"
        "exec \"$@\" 2>>\"$0/err.${}\"",
        rank_variable(), cut_by, cut, rank_variable());
    const Ended ended = end_job(
        {CLUSTER_RUN, "--slots", slots, "--tune", std::string(HOSTFILES) + "/mca-params.conf",
         "--settle", "100", "--", "sh", "-c", script, folder.path(), FAULTY_TRAINING, "-1", "none",
         "none", folder.path(), "60", stall_seconds},
        folder);
    expect_nothing_left(ended, "node2", 20);
    if (::testing::Test::IsSkipped()) return;
    std::stringstream said;
    said << std::ifstream(folder / ("err." + cut_by)).rdbuf();
    EXPECT_EQ(count_of(said.str(), "error: 10.231.7.1 has not answered node2 for 2 s"), 1)
        << said.str();
  }
}

// Without start_orted the daemon stays for Linux's two minutes.
TEST(JobStart, EndsDaemonThatMpirunDoesNotAnswer) {
  const TemporaryFolder folder;
  const std::string hostfiles = HOSTFILES, daemon = open_mpi_version < 5 ? "orted" : "prted";
  const Finished job = run_program(
      {CLUSTER_RUN, "--slots", "1,1", "--tune", hostfiles + "/mca-params.conf", "--launch-agent",
       hostfiles + "/start_orted", "--cut", "0", "--silently", "--", "hostname"},
      100);
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_NE(job.exit_code, 0) << job.all();
  expect_ended_within(30, job);
  EXPECT_EQ(
      count_of(job.err, "error: on node2, " + daemon +
                            " cannot connect to mpirun: 10.231.7.1 has not answered for 10 s."),
      1)
      << job.all();
}

TEST(Watchdog, ToleratesSlowRanks) {
  const TemporaryFolder folder;
  const Finished job = run_program(mpirun(2, faulty_training(1, "loader", "slow", folder.path())));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_GT(job.seconds, std::stod(stall_seconds));
  EXPECT_EQ(count_of(job.err, "nothing has moved"), 0) << job.all();
}

TEST(Watchdog, ToleratesStoppedAndContinuedJobs) {
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
