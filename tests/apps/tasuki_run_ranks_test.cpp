// tasuki-run with real launchers and ranks on this machine.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>

#include "core/environment.hpp"
#include "core/process_state.hpp"
#include "job/launcher.hpp"
#include "tasuki_run_job.hpp"
#include "tests/support/snapshot_hash.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

bool is_mapped(const fs::path& file) {
  for (const auto& process : fs::directory_iterator("/proc")) {
    std::ifstream maps(process.path() / "maps");
    for (std::string line; std::getline(maps, line);)
      if (line.ends_with(file.string())) return true;
  }
  return false;
}

// The files of a rank's shared memory for messages, "vader_segment..." or "sm_segment...".
std::set<fs::path> memory_of(pid_t process) {
  std::set<fs::path> found;
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  for (std::string line; std::getline(maps, line);)
    if (const auto path = line.find("/dev/shm/");
        path != std::string::npos && line.find("_segment.", path) != std::string::npos)
      found.insert(line.substr(path));
  return found;
}

bool is_launcher(pid_t process) {
  const auto state = process_state(process);
  const std::string_view name = state ? state->name.data() : "";
  return is_launcher_name(name) || name == "mpiexec.hydra";
}

bool is_running(pid_t process) {
  const auto state = process_state(process);
  return state && !state->has_ended();
}

class TasukiRunWithMpirun : public TrainMnist {
 protected:
  Words supervised(const std::string& out, const Words& flags) {
    return with(
        {TASUKI_RUN, "-np", "2"},
        with({TRAIN_MNIST, "--data", data, "--unit", "32", "--threads", "1", "--quiet", "-b", "4"},
             with(out.empty() ? Words{} : Words{"--out", folder / out}, flags)));
  }
  // The processes of ranks.
  static std::vector<pid_t> ranks(pid_t supervisor) {
    std::vector<pid_t> found;
    for (const pid_t each : descendants(supervisor))
      if (const auto state = process_state(each);
          state && std::string_view(state->name.data()) == "train_mnist")
        found.push_back(each);
    return found;
  }
  // Of this iteration or a later one, as old ones are removed.
  bool has_checkpoint(const std::string& out, int iteration) {
    for (; iteration <= iterations; iteration += 20)
      if (fs::exists(folder / out / "checkpoints" / ("iter_" + std::to_string(iteration))))
        return true;
    return false;
  }
  std::uint64_t final_weights(const std::string& out) {
    return hash_of_weights(folder / out / ("snapshot_iter_" + std::to_string(iterations)));
  }

  // Of a run that nothing happens to.
  std::uint64_t calm_weights() {
    static const std::uint64_t weights = [this] {
      const Finished calm = run_program(supervised("calm", training));
      EXPECT_EQ(calm.exit_code, 0) << calm.all();
      return final_weights("calm");
    }();
    return weights;
  }

  static constexpr int iterations = 600;
  const Words training = {
      "--epoch", "100", "--max-iterations", std::to_string(iterations), "--checkpoint-every",
      "20it"};
};

TEST_F(TasukiRunWithMpirun, ContinuesExactlyAfterKilledRanks) {
  bool is_killed = false;
  // Its folder is a setting of a file.
  std::ofstream(folder / "killed.ini") << "out = " << (folder / "killed").string() << '\n';
  const Words flags = {"--config", folder / "killed.ini"};
  const Finished job =
      run_program(supervised("", with(training, flags)), 60, {}, [&](pid_t supervisor) {
        if (is_killed || !has_checkpoint("killed", 60)) return;
        const auto processes = ranks(supervisor);
        if (processes.size() == 2) is_killed = kill(processes[1], SIGKILL) == 0;
      });
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_TRUE(is_killed);
  const char* const reason = has_hydra() ? "" : "ended by signal 9 (Killed))";  // shown by mpirun
  EXPECT_EQ(count_of(job.err, std::string(reason) + "; restart 1 of 3 at once from /"), 1)
      << job.err;
  EXPECT_EQ(count_of(job.err, "/checkpoints/iter_"), 1) << "where it goes on is said once\n"
                                                        << job.err;
  EXPECT_EQ(final_weights("killed"), calm_weights());
  EXPECT_THAT(Events(folder / "killed").names(),
              ElementsAre("start", "failure", "restart", "start", "end"));
}

// What these processes have open.
std::set<std::string> open_files(const std::vector<pid_t>& processes) {
  std::set<std::string> found;
  for (const pid_t process : processes)
    for (const auto& file : fs::directory_iterator(fmt::format("/proc/{}/fd", process))) {
      std::error_code closed;
      found.insert(fs::read_symlink(file.path(), closed));
    }
  return found;
}

// Sockets of these processes that listen on more than the loopback interface, from the tables of
// the kernel. Ranks inherit some from Hydra's launchers; these are left out.
std::vector<std::string> open_to_others(const std::vector<pid_t>& processes,
                                        const std::vector<pid_t>& launchers) {
  const std::set<std::string> own = open_files(processes), inherited = open_files(launchers);
  std::vector<std::string> found;
  for (const char* const table : {"tcp", "tcp6", "udp", "udp6"}) {
    std::ifstream lines(fmt::format("/proc/net/{}", table));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      const Words fields{std::istream_iterator<std::string>(words), {}};
      const bool listens = fields[3] == "0A" || fields[3] == "07";
      const bool is_loopback = fields[1].starts_with("0100007F:") ||
                               fields[1].starts_with("00000000000000000000000001000000:");
      const std::string socket = "socket:[" + fields[9] + "]";
      if (listens && !is_loopback && own.contains(socket) && !inherited.contains(socket))
        found.push_back(table + (" " + fields[1]));
    }
  }
  return found;
}

// The launcher's own socket, which has no setting, is not looked at.
TEST_F(TasukiRunWithMpirun, OpensNoNetworkPortsOnOneMachine) {
  std::vector<std::string> found;
  bool are_seen = false;
  std::map<std::string, std::string> environment;
  if (has_hydra()) environment = {{"UCX_TLS", "posix,self"}};  // docs/mpi.md
  const Finished job = run_program(
      supervised("result", {"--epoch", "100000"}), 60, environment, [&](pid_t supervisor) {
        if (are_seen || !fs::exists(folder / "result/log")) return;
        const auto processes = ranks(supervisor);
        are_seen = processes.size() == 2;
        auto launchers = descendants(supervisor);
        std::erase_if(launchers, [&](pid_t each) {
          return !has_hydra() || std::ranges::find(processes, each) != processes.end();
        });
        found = open_to_others(processes, launchers);
        kill(supervisor, SIGINT);
      });
  EXPECT_EQ(job.exit_code, 79) << job.all();
  EXPECT_TRUE(are_seen);
  EXPECT_THAT(found, ElementsAre());
}

// Neither mpirun nor tasuki-run is left to remove the ranks' files. The next tasuki-run does it,
// but leaves those alone that are in use, or that it has not marked. Nor has the parent of the
// killed asked for their exit statuses, as where a container's first process does not.
TEST_F(TasukiRunWithMpirun, RemovesFilesOfKilledJobs) {
  if (has_hydra()) GTEST_SKIP() << "this MPI keeps no files of a job in a folder";
  const fs::path temporary = folder / "tmp";
  fs::create_directories(temporary);
  const std::map<std::string, std::string> environment = {{"TMPDIR", temporary}};
  const auto marked = [&] {
    std::vector<fs::path> found;
    std::error_code vanished;  // a folder that mpirun makes or removes meanwhile
    for (fs::recursive_directory_iterator file(temporary, vanished), end; file != end;
         file.increment(vanished))
      if (file->path().filename() == "tasuki-run") found.push_back(file->path().parent_path());
    return found;
  };
  const auto become_parent_of_orphans = [](int is_one) {
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, is_one), 0);
  };
  become_parent_of_orphans(1);
  bool is_killed = false;
  std::vector<pid_t> all;
  std::set<fs::path> left_memory;
  run_program(supervised("killed", {"--epoch", "100000"}), 60, environment, [&](pid_t supervisor) {
    if (is_killed || marked().empty() || !fs::exists(folder / "killed/log")) return;
    all = descendants(supervisor);
    const auto with_supervisor = [&](int signal) {
      for (const pid_t process : all) kill(process, signal);
      kill(supervisor, signal);
    };
    with_supervisor(SIGSTOP);  // none cleans up after another
    for (const pid_t process : all) left_memory.merge(memory_of(process));
    with_supervisor(SIGKILL);
    is_killed = true;
  });
  become_parent_of_orphans(0);
  ASSERT_TRUE(is_killed);
  ASSERT_EQ(marked().size(), 1u);
  const fs::path left = marked()[0];
  ASSERT_FALSE(left_memory.empty());
  // By a process that was not listed yet, and ends without its job.
  const fs::path one = *left_memory.begin();
  for (const double end = shared_clock() + 20; is_mapped(one) && shared_clock() < end;)
    usleep(50'000);
  const fs::path unmarked =
      left.parent_path() / (is_orte
                                ? "pid.999999999"
                                : std::regex_replace(left.filename().string(),
                                                     std::regex("[.][0-9]+[.]"), ".999999999."));
  fs::create_directories(unmarked);

  const Words next = supervised("next", {"--epoch", "1", "--overwrite"});
  {
    const int file = open(one.c_str(), O_RDONLY | O_CLOEXEC);
    void* const mapped = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    close(file);
    EXPECT_EQ(run_program(next, 60, environment).exit_code, 0);
    EXPECT_TRUE(fs::exists(left)) << "a process maps its memory";
    munmap(mapped, 4096);
  }
  EXPECT_EQ(run_program(next, 60, environment).exit_code, 0);
  EXPECT_FALSE(fs::exists(left));
  for (const fs::path& file : left_memory) EXPECT_FALSE(fs::exists(file)) << file;
  EXPECT_TRUE(fs::exists(unmarked));
  for (const pid_t process : all) waitpid(process, nullptr, WNOHANG);
}

TEST_F(TasukiRunWithMpirun, SavesAndStopsOnControlC) {
  bool is_sent = false;
  const Finished job =
      run_program(supervised("result", {"--epoch", "100000"}), 60, {}, [&](pid_t supervisor) {
        if (is_sent || !fs::exists(folder / "result/log")) return;
        is_sent = kill(-supervisor, SIGINT) == 0;  // as a terminal does
      });
  EXPECT_EQ(job.exit_code, 79) << job.all();
  EXPECT_THAT(job.err, HasSubstr("stopped and saved after iteration "));
  EXPECT_EQ(count_of(job.err, "mpirun"), 0) << job.err;
}

// `tasuki-run ... 2>&1 | tee log` in a terminal: tee gets the signal, too, and nobody reads what
// the ranks and mpirun still print.
TEST_F(TasukiRunWithMpirun, SavesWhenControlCEndsTheReader) {
  const Words job_words = supervised("result", {"--epoch", "100000", "--checkpoint-every", "20it",
                                                "--print-every", "1", "--quiet=false"});
  bool is_sent = false;
  const Finished job =
      run_program(with({"bash", "-c",
                        "trap : INT; \"$@\" 2>&1 | tee '" + (folder / "log").string() +
                            "' >/dev/null; echo ${PIPESTATUS[*]}",
                        "bash"},
                       job_words),
                  60, {}, [&](pid_t shell) {
                    if (is_sent || !fs::exists(folder / "result/log")) return;
                    is_sent = kill(-shell, SIGINT) == 0;
                  });
  EXPECT_EQ(job.out, "79 130\n") << job.err << read_file(folder / "log");
  EXPECT_THAT(Events(folder / "result").names(), ElementsAre("start", "stop", "end"));
  int saved = 0, read = 0;
  for (const auto& each : fs::directory_iterator(folder / "result/checkpoints"))
    saved = std::max(saved, std::stoi(each.path().filename().string().substr(5)));
  for (const std::string& line : lines_of(read_file(folder / "log")))
    if (line.starts_with("step ")) read = std::stoi(line.substr(5));
  EXPECT_GE(read, 1);
  EXPECT_GE(saved, read) << "the last step was not saved";
}

// A rank that is ended leaves it to its supervisor, if it has one.
TEST_F(TasukiRunWithMpirun, PrintsTheResumeCommandOnce) {
  const auto last_words = [this](const std::map<std::string, std::string>& environment) {
    bool is_sent = false;
    const Finished job = run_program(
        mpirun(1, program("result", {"--epoch", "100000", "--checkpoint-every", "1it"})), 60,
        environment, [&](pid_t launcher) {
          if (is_sent || !fs::exists(folder / "result/log")) return;
          is_sent = kill(launcher, SIGTERM) == 0;
        });
    EXPECT_TRUE(is_sent);
    return count_of(job.err, "the job was ended; continue from the last checkpoint with ");
  };
  if (has_hydra()) GTEST_SKIP() << "Hydra leaves time to save";
  EXPECT_EQ(last_words({}), is_orte ? 1 : 0) << "PRRTE shows nothing after it was told to end";
  EXPECT_EQ(last_words({{"TASUKI_SUPERVISOR", "mark"}}), 0);
}

// Neither processes nor files are left of a launcher that was killed.
TEST_F(TasukiRunWithMpirun, LeavesNothingOfKilledLaunchers) {
  pid_t launcher = 0;
  std::vector<pid_t> killed;
  const Finished job =
      run_program(supervised("result", with(training, {"--max-iterations", "100000"})), 60, {},
                  [&](pid_t supervisor) {
                    if (launcher == 0 && has_checkpoint("result", 60)) {
                      killed = ranks(supervisor);
                      for (const pid_t each : descendants(supervisor))
                        if (launcher == 0 && is_launcher(each)) launcher = each;
                      if (launcher > 0) kill(launcher, SIGKILL);
                    } else if (launcher != 0 && fs::exists(folder / "result/incidents.jsonl") &&
                               std::ranges::count(Events(folder / "result").names(), "start") > 1) {
                      kill(supervisor, SIGTERM);
                    }
                  });
  EXPECT_EQ(count_of(job.err, "restart 1 of 3"), 1) << job.err;
  for (const pid_t rank : killed) EXPECT_FALSE(is_running(rank)) << rank;
  const std::string number = std::to_string(launcher);
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path())) {
    EXPECT_FALSE(fs::exists(entry.path() / ("pid." + number))) << entry.path();
    const std::string name = entry.path().filename();
    EXPECT_FALSE(name.starts_with("prterun.") && name.find('.' + number + '.') != name.npos)
        << name;
  }
}

TEST_F(TasukiRunWithMpirun, PrintsErrorsLast) {
  const Finished job = run_program(supervised("result", {"--shards", "3"}));
  EXPECT_EQ(job.exit_code, 78) << job.all();
  EXPECT_EQ(count_of(job.err, "\n"), 1) << job.err;
  EXPECT_THAT(job.err, HasSubstr("3 shards cannot be shared"));
}

// Also where mpirun's text is shown. (Of its paragraph it may lose all but a remark.)
TEST_F(TasukiRunWithMpirun, PrintsErrorsOfOneRankLast) {
  for (const bool is_verbose : {false, true}) {
    const Finished job = run_program({TASUKI_RUN, "-np", "2", "--stop-timeout", "0",
                                      is_verbose ? "--verbose" : "--verbose=false", FAULTY_TRAINING,
                                      "1", "forward", "throw", folder.path()});
    EXPECT_EQ(job.exit_code, 70) << job.all();
    const int of_mpirun = count_of(job.err, "MPI_ABORT was invoked") + count_of(job.err, "ORTE_");
    EXPECT_EQ(of_mpirun > 0, is_verbose && !has_hydra()) << job.err;
    // Rank 0, which is ended, may say so afterwards: then the line is repeated, too.
    const bool is_covered = is_verbose || count_of(job.err, "the job was ended") > 0;
    EXPECT_LE(count_of(job.err, "rank 1 on "), is_covered ? 2 : 1) << job.err;
    EXPECT_THAT(lines_of(job.err).back(), ::testing::StartsWith("rank 1 on ")) << job.err;
  }
}

// By the signal that the kernel sends mpirun then. What was saved is continued by another one.
TEST_F(TasukiRunWithMpirun, EndsTheJobWhenKilled) {
  std::vector<pid_t> all;
  double killed_at = 0;
  const Finished killed =
      run_program(supervised("result", with(training, {"--max-iterations", "100000"})), 60, {},
                  [&](pid_t supervisor) {
                    if (killed_at != 0 || !has_checkpoint("result", 60)) return;
                    all = descendants(supervisor);
                    killed_at = shared_clock();
                    kill(supervisor, SIGKILL);
                  });
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL) << killed.all();
  ASSERT_GE(all.size(), 3u) << "mpirun and two ranks";
  const auto is_any_left = [&] { return std::ranges::any_of(all, is_running); };
  while (is_any_left() && shared_clock() < killed_at + 10 * patience()) usleep(20'000);
  EXPECT_LT(shared_clock() - killed_at, 5 * patience());
  EXPECT_FALSE(is_any_left());

  const Finished next = run_program(supervised("result", with(training, {"--resume", "auto"})));
  EXPECT_EQ(next.exit_code, 0) << next.all();
  EXPECT_TRUE(fs::exists(folder / ("result/snapshot_iter_" + std::to_string(iterations))));
  EXPECT_FALSE(fs::exists(folder / "result-2"));
  EXPECT_EQ(final_weights("result"), calm_weights());
}

TEST_F(TasukiRunWithMpirun, DoesNotRestartWhatMpirunRefuses) {
  const auto refused = [](const Words& words, int exit_code, const std::string& line) {
    const Finished job = run_program(with({TASUKI_RUN, "-np", "2", "--max-restarts", "2"}, words));
    EXPECT_EQ(job.exit_code, exit_code) << job.all();
    EXPECT_EQ(count_of(job.err, "restart 1"), 0) << job.err;
    EXPECT_THAT(job.err, ::testing::EndsWith(line + '\n'));
  };
  std::ofstream(folder / "train") << "#!/no/such/shell\n";
  fs::permissions(folder / "train", fs::perms::owner_all);
  if (has_hydra()) {
    refused({folder / "train"}, 255,
            "error: " + (folder / "train").string() + " is missing on " + host_name() +
                ", or cannot be executed there; every host needs it at this path");
    refused({"--mpirun-args", "--no-such-flag", TRAIN_MNIST}, 255,
            "error: mpiexec: unrecognized argument no-such-flag");
    return;
  }
  if (is_orte) {  // PRRTE does not notice it
    refused({folder / "train"}, 131,
            (folder / "train").string() + " has a bad interpreter on the first line.");
    refused({"--mpirun-args", "--no-such-flag", TRAIN_MNIST}, 1,
            "error: mpirun: unknown option \"--no-such-flag\"");
  } else {  // whose message is on standard output
    refused({"--mpirun-args", "--no-such-flag", TRAIN_MNIST}, 213,
            "error: mpirun could not start the ranks (exit code 213); see its message above");
  }
  std::ofstream(folder / "hosts") << "localhost slots=1\n";
  refused({"--hostfile", folder / "hosts", "--mpirun-args", "--nooversubscribe", TRAIN_MNIST}, 1,
          "error: mpirun could not start the ranks (exit code 1); see its message above");
}

TEST_F(TasukiRunWithMpirun, GivesOtherProgramsTimeToExit) {
  if (!is_orte) GTEST_SKIP() << "Open MPI 5's mpirun kills ranks 0.2 s after SIGTERM";
  std::ofstream(folder / "other")
      << "#!/bin/bash\ntrap 'sleep 0.3; touch \"$1.ended\"; exit' TERM\n"
         "touch \"$1\"; while :; do sleep 0.05; done\n";
  fs::permissions(folder / "other", fs::perms::owner_all);
  bool is_sent = false;
  const Finished job = run_program({TASUKI_RUN, "-np", "1", folder / "other", folder / "mark"}, 60,
                                   {}, [&](pid_t supervisor) {
                                     if (is_sent || !fs::exists(folder / "mark")) return;
                                     is_sent = kill(supervisor, SIGTERM) == 0;
                                   });
  EXPECT_EQ(job.exit_code == 0, has_hydra()) << "with Hydra it is the program's own";
  EXPECT_TRUE(fs::exists(folder / "mark.ended")) << job.all();
}

}  // namespace
}  // namespace tasuki::testing
