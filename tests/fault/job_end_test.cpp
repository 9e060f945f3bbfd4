// However one rank fails, the whole job ends soon, with a non-zero exit code, and leaves nothing.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <thread>

#include "core/error.hpp"
#include "saving/npz.hpp"
#include "tests/support/json.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {
namespace {

constexpr int ranks = 3;
constexpr int failing = 1;

template <class T>
T read_value(const std::string& path) {
  T value{};
  std::ifstream(path) >> value;
  return value;
}

using FileTime = std::filesystem::file_time_type;

// Files in /dev/shm of a job that began at this time: Open MPI puts the job's number into their
// names, and communicator/node/shared_memory.cpp a rank's process id. Jobs before it, which may
// have been killed, can have had the same numbers.
std::vector<std::string> shared_memory_of(const std::string& job, const std::vector<pid_t>& ranks,
                                          FileTime begin) {
  std::vector<std::string> parts;
  if (!job.empty()) parts.push_back(job);
  for (const pid_t rank : ranks) parts.push_back(fmt::format("tasuki-{}-{}-", getuid(), rank));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (std::none_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return name.find(part) != std::string::npos; }))
      continue;
    std::error_code is_gone;
    const FileTime changed = entry.last_write_time(is_gone);
    if (!is_gone && changed >= begin) names.push_back(name);
  }
  return names;
}

// Whether the process has ended (also if its parent has not waited for it yet).
bool has_ended(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/stat", pid));
  const std::string text{std::istreambuf_iterator<char>(status), {}};
  const auto name_end = text.rfind(')');  // "42 (name) S ..."
  return name_end == std::string::npos || text.compare(name_end, 3, ") Z") == 0;
}

bool ends_soon(pid_t pid) {
  for (int i = 0; i < 50; ++i) {
    if (has_ended(pid)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

struct Ended {
  Finished job;
  double seconds_after_fault;
};

Ended end_job(const std::string& moment, const std::string& kind,
              const std::map<std::string, std::string>& environment = {}) {
  const TemporaryFolder folder;
  const FileTime begin = FileTime::clock::now();
  const Finished job = run_program(
      mpirun(ranks, {FAULTY_TRAINING, std::to_string(failing), moment, kind, folder.path()}), 30,
      environment);
  const double end = shared_clock();

  EXPECT_FALSE(job.timed_out) << job.all();
  EXPECT_NE(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, "interrupted"), 0) << "it failed: " << job.all();
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto pid = read_value<pid_t>(folder / fmt::format("pid.{}", rank));
    if (pid == 0) continue;  // another one's early end kept it from starting
    EXPECT_TRUE(ends_soon(pid)) << "rank " << rank << " still runs";
    processes.push_back(pid);
  }
  const auto number = read_value<std::string>(folder / "job");
  EXPECT_EQ(number.empty(), has_hydra()) << "a job of Hydra's has no number";
  EXPECT_EQ(shared_memory_of(number, processes, begin), std::vector<std::string>{})
      << "left in /dev/shm";
  const auto fault_time = read_value<double>(folder / "time");
  EXPECT_GT(fault_time, 0) << "the fault never came about: " << job.all();
  return {job, end - fault_time};
}

class Exceptions : public ::testing::TestWithParam<const char*> {};

TEST_P(Exceptions, EndJobAndNameRankHostAndCause) {
  const std::string moment = GetParam();
  const Ended ended = end_job(moment, "throw");
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof(host) - 1), 0);
  EXPECT_LT(ended.seconds_after_fault, 3 * patience());
  EXPECT_EQ(ended.job.exit_code, static_cast<int>(ErrorKind::internal)) << ended.job.all();
  EXPECT_EQ(count_of(ended.job.all(), "planted in " + moment), 1) << ended.job.all();
  // The line with the cause has rank and host too.
  const std::string text = ended.job.err;
  const auto cause = text.find("planted in ");
  ASSERT_NE(cause, std::string::npos) << ended.job.all();
  const auto begin = text.rfind('\n', cause) + 1;
  const std::string line = text.substr(begin, text.find('\n', cause) - begin);
  EXPECT_NE(line.find(fmt::format("rank {}", failing)), std::string::npos) << line;
  EXPECT_NE(line.find(host), std::string::npos) << line;
}

INSTANTIATE_TEST_SUITE_P(All, Exceptions,
                         ::testing::Values("start", "forward", "loader", "extension", "evaluator"),
                         [](const auto& info) { return std::string(info.param); });

TEST(LeftoverProcesses, AreCountedOnlyForTheJob) {
  const std::string name = fmt::format("tasuki-{}-{}-test", getuid(), getpid());
  const std::filesystem::path file = "/dev/shm/" + name;
  const FileTime begin = FileTime::clock::now() - std::chrono::seconds(60);
  std::ofstream(file) << "of this test";
  EXPECT_EQ(shared_memory_of("ffffffff", {getpid()}, begin), std::vector{name});
  std::filesystem::last_write_time(file, begin - std::chrono::seconds(1));
  EXPECT_EQ(shared_memory_of("ffffffff", {getpid()}, begin), std::vector<std::string>{});
  std::filesystem::remove(file);
}

// If there are no other ranks to end, the line is all there is.
TEST(SingleProcess, PrintsOnlyItsErrorLine) {
  const Finished finished = run_program({TRAIN_MNIST, "--epoc", "3"});
  EXPECT_EQ(finished.exit_code, static_cast<int>(ErrorKind::usage)) << finished.all();
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(count_of(finished.err, "\n"), 1) << finished.err;
  EXPECT_NE(finished.err.find("--epoch"), std::string::npos) << finished.err;
}

TEST(ForeignExceptions, AreReported) {
  const Ended ended = end_job("forward", "foreign");
  EXPECT_LT(ended.seconds_after_fault, 3 * patience());
  EXPECT_EQ(count_of(ended.job.err, fmt::format("rank {} on ", failing)), 1) << ended.job.all();
}

// Rank 0 would print for all, but it has not met the error.
TEST(SharedErrors, AreReportedWhenOnlyOneRankHasThem) {
  const Ended ended = end_job("forward", "shared");
  EXPECT_LT(ended.seconds_after_fault, 3 * patience());
  EXPECT_EQ(count_of(ended.job.err, fmt::format("rank {} on ", failing)), 1) << ended.job.all();
}

// In the iteration in which it happens, with one line, whether a single rank has it or all.
TEST(Divergence, EndsJobInTheSameIteration) {
  for (const int rank : {failing, -1}) {
    for (const auto& [kind, found] :
         {std::pair{"nan", "main/loss became nan"}, {"huge", "over 1e+06 times the first"}}) {
      SCOPED_TRACE(fmt::format("{} on {}", kind, rank));
      const TemporaryFolder folder;
      const Finished job = run_program(
          mpirun(ranks, {FAULTY_TRAINING, std::to_string(rank), "forward", kind, folder.path()}),
          30);
      EXPECT_LT(shared_clock() - read_value<double>(folder / "time"), 4 * patience());
      EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::config)) << job.all();
      EXPECT_EQ(count_of(job.err, "training diverged"), 1) << job.all();
      EXPECT_EQ(count_of(job.err, found), 1) << job.all();
      EXPECT_EQ(count_of(job.err, "interrupted"), 0) << job.all();
      EXPECT_EQ(count_of(job.err, "; its batch begins with examples "), 1) << job.all();
      EXPECT_EQ(count_of(job.err, fmt::format("in iteration 3 on rank {};", std::max(rank, 0))), 1)
          << job.all();
      EXPECT_TRUE(std::filesystem::exists(folder / "result/snapshot_iter_2"));
      EXPECT_FALSE(std::filesystem::exists(folder / "result/snapshot_iter_3"));
    }
  }
}

// On all ranks, whether a single one has it or all; what is saved has nothing of that step.
TEST(Divergence, SkipsStepsOnRequest) {
  for (const int np : {1, 2, 3, 4}) {
    const int rank = np - 1;
    SCOPED_TRACE(np);
    const TemporaryFolder folder;
    const Finished job = run_program(
        mpirun(np, {FAULTY_TRAINING, std::to_string(rank), "forward", "once", folder.path()}), 30);
    EXPECT_EQ(job.exit_code, 0) << job.all();
    const std::string who = np == 1 ? "" : fmt::format(" on rank {}", rank);
    EXPECT_EQ(
        count_of(job.err, "warning: iteration 3 is left out (1 so far): main/loss became nan" +
                              who + "; its batch begins with examples "),
        1)
        << job.all();
    EXPECT_EQ(count_of(job.err, "left out"), 1) << job.all();
    const auto weights_of = [&](int iteration) {
      const NpzFile file(folder / fmt::format("result/snapshot_iter_{}", iteration));
      std::vector<float> all;
      for (const std::string& name : file.names())
        if (name.starts_with("updater/model:main/")) {
          const auto values = std::get<Tensor>(file.read(name)).span<float>();
          all.insert(all.end(), values.begin(), values.end());
        }
      return all;
    };
    EXPECT_EQ(weights_of(3), weights_of(2));
    EXPECT_NE(weights_of(4), weights_of(3));
    const auto entries = json_in(folder / "result/log");
    EXPECT_EQ(entries.at(1).at("skipped"), 0);
    EXPECT_EQ(entries.at(2).at("skipped"), 1);
    EXPECT_FALSE(entries.at(2).contains("main/loss"));
  }
}

TEST(Divergence, SkipsAtMostTenStepsInARow) {
  const TemporaryFolder folder;
  const Finished job =
      run_program(mpirun(2, {FAULTY_TRAINING, "1", "forward", "always", folder.path()}), 30);
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::config)) << job.all();
  EXPECT_EQ(count_of(job.err, " is left out ("), 9) << job.all();
  EXPECT_EQ(count_of(job.err,
                     "error: training diverged: 10 iterations in a row were left out, the "
                     "last one, 12, because main/loss became nan on rank 1; its batch"),
            1)
      << job.all();
}

// A flipped bit is found before it is saved.
TEST(DeviatingReplica, IsNamedAndNotSaved) {
  for (const int np : {2, 3, 4}) {
    SCOPED_TRACE(np);
    const TemporaryFolder folder;
    const Finished job =
        run_program(mpirun(np, {FAULTY_TRAINING, "1", "extension", "flip", folder.path()}), 30);
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::disagreement)) << job.all();
    const std::string when =
        "error: replicas differ after iteration 3 (after iteration 2 all were ";
    const std::string who = np == 2 ? "equal): ranks 0, 1 on " : "equal): rank 1 on ";
    EXPECT_EQ(count_of(job.err, when + who), 1) << job.all();
    EXPECT_TRUE(std::filesystem::exists(folder / "result/snapshot_iter_2"));
    EXPECT_FALSE(std::filesystem::exists(folder / "result/snapshot_iter_3"));
  }
}

// With Open MPI's own settings. On a rank that is alone on its host they cost 2 seconds.
class ExceptionsOnOtherNodes : public ::testing::TestWithParam<const char*> {};

TEST_P(ExceptionsOnOtherNodes, EndJob) {
  const std::string slots = GetParam();
  const int last = slots == "2,2" ? 3 : 1;
  const TemporaryFolder folder;
  const Finished job = run_program({CLUSTER_RUN, "--slots", slots, "--", FAULTY_TRAINING,
                                    std::to_string(last), "forward", "throw", folder.path()},
                                   30);
  const double end = shared_clock();
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::internal)) << job.all();
  const std::string line = fmt::format("rank {} on node2: planted in forward\n", last);
  EXPECT_EQ(count_of(job.err, line), 1) << job.all();
  EXPECT_LT(end - read_value<double>(folder / "time"), 3 * patience());
}

TEST_P(ExceptionsOnOtherNodes, AreReportedByRankZero) {
  const TemporaryFolder folder;
  const Finished job = run_program({CLUSTER_RUN, "--slots", GetParam(), "--", FAULTY_TRAINING, "-1",
                                    "forward", "shared", folder.path()},
                                   30);
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::config)) << job.all();
  EXPECT_EQ(count_of(job.err, "error: planted in forward\n"), 1) << job.all();
  EXPECT_EQ(count_of(job.err, "planted"), 1) << job.all();
}

INSTANTIATE_TEST_SUITE_P(Slots, ExceptionsOnOtherNodes, ::testing::Values("2,2", "1,1"),
                         [](const auto& info) {
                           return std::string(info.param[0] == '2' ? "OfTwo" : "OfOne");
                         });

// The others would wait for it forever.
TEST(EarlyReturn, EndsJobOnNonzeroExitCode) {
  const Ended ended = end_job("forward", "return3");
  EXPECT_LT(ended.seconds_after_fault, 4 * patience());
  EXPECT_EQ(ended.job.exit_code, 3) << ended.job.all();
  EXPECT_EQ(count_of(ended.job.err, fmt::format("rank {} on ", failing)), 1) << ended.job.all();
  EXPECT_EQ(count_of(ended.job.err, "the program returned 3 on this rank, and the other ranks"), 1);
}

TEST(EarlyReturn, EndsJobWhenOtherRanksDoNotFollow) {
  const Ended ended = end_job("forward", "return0", {{"TASUKI_END_SECONDS", "1"}});
  EXPECT_LT(ended.seconds_after_fault, 4 * patience());
  EXPECT_EQ(ended.job.exit_code, static_cast<int>(ErrorKind::hang)) << ended.job.all();
  EXPECT_EQ(count_of(ended.job.err, "the program returned 0 on this rank, and the other ranks"), 1);
}

// What user code forks inherits handlers, exit functions and objects.
struct Child {
  const char *moment, *kind;
  int wait_status;
};

class ChildProcesses : public ::testing::TestWithParam<Child> {};

TEST_P(ChildProcesses, EndWithoutAffectingTheJob) {
#ifdef __clang__
  if (GetParam().kind == std::string("fork_exit"))
    GTEST_SKIP() << "LLVM's OpenMP fails in a forked child that calls exit (docs/systems.md)";
#endif
  const TemporaryFolder folder;
  const Finished job = run_program(
      mpirun(2, {FAULTY_TRAINING, "1", GetParam().moment, GetParam().kind, folder.path()}), 30);
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_FALSE(std::filesystem::exists(folder / "destroyed"))
      << "what waits for threads would hang";
  EXPECT_EQ(read_value<int>(folder / "child"), GetParam().wait_status) << job.all();
  EXPECT_EQ(count_of(job.err, "the job was ended"), 0) << job.all();
  const bool throws = GetParam().kind == std::string("fork_throw");
  EXPECT_EQ(count_of(job.err, "a process that the program forked: thrown in a child\n"), throws)
      << job.all();
}

INSTANTIATE_TEST_SUITE_P(Ways, ChildProcesses,
                         ::testing::Values(Child{"extension", "fork_exit", 0},
                                           Child{"start", "fork_throw", 70 << 8},
                                           Child{"extension", "fork_throw", 70 << 8},
                                           Child{"forward", "fork_throw", 70 << 8},
                                           Child{"start", "fork_return", 5 << 8},
                                           Child{"extension", "fork_terminate", SIGABRT},
                                           Child{"extension", "fork_signal", SIGTERM}),
                         [](const auto& info) {
                           return std::string(info.param.kind) + "_at_" + info.param.moment;
                         });

TEST(ChildProcesses, AreNamedAndEndedWhenTheyHoldTheOutput) {
  const TemporaryFolder folder;
  const Finished job =
      run_program(mpirun(2, {FAULTY_TRAINING, "1", "extension", "background", folder.path()}), 30,
                  {{"TASUKI_END_SECONDS", "2"}});
  EXPECT_FALSE(job.timed_out);
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, "warning: rank 1 on "), 1) << job.all();
  EXPECT_EQ(count_of(job.err, " (sleep 300); they are ended in 2 s (TASUKI_END_SECONDS)\n"), 1)
      << job.all();
}

// Whose launcher is a script with the name and the variables of another MPI's.
class MpiLauncher : public ::testing::Test {
 protected:
  Finished start(const std::string& launcher, const std::string& words,
                 const std::map<std::string, std::string>& environment) {
    const std::filesystem::path script = folder / launcher;
    std::ofstream(script) << "#!/bin/bash\n"
                          << words << ' ' << TRAIN_MNIST << " --version\nexit $?\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    return run_program({script}, 30, environment);
  }
  void expect_refused(const Finished& job, const std::string& said) {
    EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::config)) << job.all();
    EXPECT_EQ(count_of(job.err, "error: the launcher (" + said), 1) << job.all();
    EXPECT_EQ(count_of(job.err, "\n"), 1) << job.all();
    EXPECT_EQ(job.out, "");
  }
  void expect_started(const Finished& job) {
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(job.err, "");
  }

  TemporaryFolder folder;
};

TEST_F(MpiLauncher, IsRejectedFromAnotherMpi) {
  expect_refused(start("hydra_pmi_proxy", "", {{"PMI_SIZE", "4"}, {"PMI_RANK", "0"}}),
                 "hydra_pmi_proxy) started 4 processes (PMI_SIZE)");
  expect_refused(start("slurmstepd", "bash -c '\"$@\"; exit $?' bash",
                       {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}}),
                 "slurmstepd) started 2 processes (SLURM_STEP_NUM_TASKS)");
  if (has_hydra())
    expect_refused(
        start("prterun", "", {{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "0"}}),
        "prterun) started 3 processes (OMPI_COMM_WORLD_SIZE)");
}

TEST_F(MpiLauncher, IsIgnoredForOtherProcesses) {
  // An allocation, and a shell that a step of several tasks has on a terminal.
  expect_started(start("bash_of_allocation", "", {{"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}}));
  expect_started(
      start("slurmstepd", "",
            {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_PTY_PORT", "4711"}}));
  expect_started(start("slurmstepd", "", {{"SLURM_NTASKS", "8"}}));
  // One process, on purpose: by the same launcher, by a launcher within its job, or alone.
  expect_started(start("hydra_pmi_proxy", "", {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}));
  std::string launch;
  for (const std::string& word : mpirun(1, {})) launch += word + ' ';
  expect_started(start("hydra_pmi_proxy", launch, {{"PMI_SIZE", "4"}, {"PMI_RANK", "0"}}));
  expect_started(start("hydra_pmi_proxy", "env -u PMI_SIZE", {{"PMI_SIZE", "4"}}));
  expect_started(start("anything", "", {{"PMI_SIZE", "4"}, {"PMI_RANK", "0"}}));
}

struct Death {
  const char* kind;
  int exit_code;  // 0: any that is not zero
};

class RankDeath : public ::testing::TestWithParam<Death> {};

TEST_P(RankDeath, EndsTheJob) {
  const Ended ended = end_job("forward", GetParam().kind);
  EXPECT_LT(ended.seconds_after_fault, 4 * patience());
  if (GetParam().exit_code == 0 || has_hydra())  // whose code is the signal's number, or 255
    EXPECT_NE(ended.job.exit_code, 0) << ended.job.all();
  else
    EXPECT_EQ(ended.job.exit_code, GetParam().exit_code) << ended.job.all();
}

INSTANTIATE_TEST_SUITE_P(Ways, RankDeath,
                         ::testing::Values(Death{"abort", 128 + SIGABRT}, Death{"exit0", 0},
                                           Death{"exit3", 3}, Death{"kill", 128 + SIGKILL},
                                           Death{"segv", 128 + SIGSEGV}),
                         [](const auto& info) { return std::string(info.param.kind); });

}  // namespace
}  // namespace tasuki::testing
