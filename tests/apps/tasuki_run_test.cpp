// tasuki-run with an mpirun that is a script, which does what a test says, and with the real one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <future>
#include <sstream>

#include "snapshot_hash.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/job/process_state.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class Events {
 public:
  explicit Events(const fs::path& folder) {
    for (const std::string& line : lines_of(read_file(folder / "incidents.jsonl")))
      all_.push_back(nlohmann::json::parse(line));
  }
  Words names() const {
    Words names;
    for (const auto& one : all_) names.push_back(one.at("event"));
    return names;
  }
  const nlohmann::json& operator[](std::size_t i) const { return all_.at(i); }

 private:
  std::vector<nlohmann::json> all_;
};

bool has_said(const fs::path& folder, const std::string& event) {
  return fs::exists(folder / "incidents.jsonl") &&
         count_of(read_file(folder / "incidents.jsonl"), '"' + event + '"') > 0;
}

// In a folder with bin/mpirun and bin/srun, which note their words in `calls` and run `plan`, a
// bash script that finds the number of the call in $n; and with a program that knows
// --print-config.
class FakeLauncher : public ::testing::Test {
 protected:
  FakeLauncher() {
    const std::string launcher = "#!/bin/bash\ncd '" + folder.path().string() +
                                 "'\n"
                                 "echo \"${0##*/} $*\" >> calls\nn=$(wc -l < calls)\n"
                                 "take() { mkdir -p $1; echo \"{\\\"supervisor\\\": "
                                 "\\\"$TASUKI_SUPERVISOR\\\"}\" > $1/about.json; }\n"
                                 "source ./plan\n";
    for (const char* name : {"bin/mpirun", "bin/srun"}) script(name, launcher);
    script("train",
           "#!/bin/bash\nfor word; do case $word in\n"
           "  --print-config) asked=1 ;;\n"
           "  --wrong) echo 'error: unknown flag --wrong' >&2; exit 64 ;;\n"
           "  --crash) kill -SEGV $$ ;;\n"
           "  --help) echo 'how to train'; exit ;;\n"
           "esac; done\n"
           "[ $asked ] || exit 1\n"
           "echo 'of my own: text'\n"
           "printf '%s\\n' '# train 1; read back with --config FILE' 'out = " +
               out.string() + "  # default' 'resume = none'\n");
    script("other", "#!/bin/bash\n");
  }
  void script(const std::string& name, const std::string& text) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
    fs::permissions(folder / name, fs::perms::owner_all);
  }
  Words words(const Words& flags, const std::string& program = "train") {
    return with(with({TASUKI_RUN, "-np", "2"}, flags), {folder / program});
  }
  Finished run(const std::string& plan, const Words& all,
               const std::function<void(pid_t)>& meanwhile = {}) {
    fs::remove(folder / "calls");
    std::ofstream(folder / "plan") << plan;
    return run_program(all, 30, {{"PATH", path()}, {"TMPDIR", "/none"}}, meanwhile);
  }
  // Sends these signals, one after the other, once there is a file `ready`.
  std::function<void(pid_t)> when_ready(std::vector<int> signals) {
    return [this, signals, next = 0u](pid_t program) mutable {
      if (next >= signals.size() || !fs::exists(folder / "ready")) return;
      kill(program, signals[next++]);
    };
  }
  std::string path() { return (folder / "bin").string() + ":" + std::getenv("PATH"); }
  std::vector<std::string> calls() { return lines_of(read("calls")); }
  std::string read(const std::string& name) {
    return fs::exists(folder / name) ? read_file(folder / name) : "";
  }

  TemporaryFolder folder;
  fs::path out = folder / "result";
  const std::string rule = std::string(76, '-');
};

TEST_F(FakeLauncher, ExitCodesArePassedOn) {
  for (const int code : {0, 3, 64, 70, 79, 137, 205}) {
    const Finished job = run("exit " + std::to_string(code), words({"--max-restarts", "0"}));
    EXPECT_EQ(job.exit_code, code) << job.all();
    EXPECT_EQ(calls().size(), 1u);
    EXPECT_EQ(job.err, code == 0 || code == 79
                           ? ""
                           : "error: " + (folder / "train").string() + " ended with exit code " +
                                 std::to_string(code) + "\n");
  }
  EXPECT_EQ(run("kill -9 $$", words({"--max-restarts", "0"})).exit_code, 137);
}

TEST_F(FakeLauncher, OutputIsPassedOn) {
  const Finished job = run("echo out; echo err >&2", words({}));
  EXPECT_EQ(job.out, "out\n");
  EXPECT_EQ(job.err, "err\n");
}

TEST_F(FakeLauncher, FlagsAreCheckedFirst) {
  const Finished wrong = run("exit 0", with(words({}), {"--wrong"}));
  EXPECT_EQ(wrong.exit_code, 64);
  EXPECT_EQ(wrong.err, "error: unknown flag --wrong\n");
  const Finished help = run("exit 0", with(words({}), {"--help"}));
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.out, "how to train\n");
  const Finished missing = run("exit 0", {TASUKI_RUN, folder / "none"});
  EXPECT_EQ(missing.exit_code, 66);
  EXPECT_THAT(missing.err, HasSubstr("there is no program " + (folder / "none").string()));
  const Finished crashed = run("exit 0", with(words({}), {"--crash"}));
  EXPECT_EQ(crashed.exit_code, 139);
  EXPECT_EQ(crashed.err, "error: " + (folder / "train").string() +
                             " --print-config ended with exit code 139; expected its settings\n");
  const Finished printed = run("exit 0", words({"--print-command"}));
  EXPECT_THAT(printed.out, HasSubstr("mpirun -np 2 --tune "));
  EXPECT_FALSE(fs::exists(folder / "calls"));
}

// In the folder that the program took; with the error as the last line.
TEST_F(FakeLauncher, FailuresAreFollowedByAnotherStart) {
  const std::string taken = (folder / "result-2").string();
  const Finished job =
      run("printf '<%s>' \"$@\" > words$n; if [ $n = 1 ]; then take " + taken + "; touch " + taken +
              "/snapshot_iter_40\n"
              "  printf '%s\\n' " +
              rule +
              " 'mpirun noticed that process rank 1 with PID 0 on node h exited "
              "on signal 9 (Killed).' " +
              rule + " >&2; exit 137; fi",
          with(words({}), {"--note", "a  'b'", "--", "-x y"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  ASSERT_EQ(calls().size(), 2u);
  EXPECT_THAT(read("words2"), ::testing::EndsWith("<--note><a  'b'><--out><" + taken +
                                                  "><--resume><auto><--><-x y>"));
  EXPECT_EQ(job.err,
            "tasuki-run: the job failed with exit code 137 (rank 1 on h: ended by signal 9 "
            "(Killed)); restart 1 of 3 in 1 s from " +
                taken +
                "/snapshot_iter_40, iteration 40\n"
                "tasuki-run: finished after 2 starts\n");
  const Events events(taken);
  EXPECT_THAT(events.names(), ElementsAre("start", "failure", "restart", "start", "end"));
  EXPECT_THAT(events[0].at("command").get<std::string>(), HasSubstr("mpirun -np 2"));
  EXPECT_EQ(events[1].at("exit_code"), 137);
  EXPECT_EQ(events[1].at("rank"), 1);
  EXPECT_EQ(events[1].at("host"), "h");
  EXPECT_EQ(events[1].at("np"), 2);
  EXPECT_EQ(events[2].at("number"), 1);
  EXPECT_EQ(events[2].at("iteration"), 40);
  EXPECT_EQ(events[4].at("exit_code"), 0);
}

TEST_F(FakeLauncher, FailuresWithoutProgressEndAfterSoMany) {
  const std::string error = "rank 1 on h: broken\n";
  const Finished job =
      run("take " + out.string() + "; [ $n = 3 ] || touch " + out.string() +
              "/snapshot_iter_$n\n"
              "printf 'rank 1 on h: broken\\n" +
              rule + "\\nMPI_ABORT was invoked on rank 1\\n" + rule + "\\n' >&2; exit 70",
          words({"--max-restarts", "1"}));
  EXPECT_EQ(job.exit_code, 70) << job.all();
  EXPECT_EQ(calls().size(), 3u);
  EXPECT_EQ(count_of(job.err, "restart 1 of 1 in 1 s"), 2) << "progress begins the count anew";
  EXPECT_EQ(count_of(job.err, "MPI_ABORT"), 0) << job.err;
  EXPECT_THAT(
      job.err,
      ::testing::EndsWith("giving up after 1 restart without progress (--max-restarts)\n" + error));
}

TEST_F(FakeLauncher, OtherProgramsAreStartedAsTheyAre) {
  EXPECT_EQ(run("exit 5", words({}, "other")).exit_code, 5);
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_EQ(run("exit 5", words({"--max-restarts", "1"}, "other")).exit_code, 5);
  ASSERT_EQ(calls().size(), 2u);
  EXPECT_EQ(calls()[0], calls()[1]);
}

// Even if they know the word --print-config.
TEST_F(FakeLauncher, OtherProgramsMayPrintInPlaceOfSettings) {
  script("other", "#!/bin/bash\n# not --print-config\necho own text\n");
  const Finished job = run("echo ranks", with(words({}, "other"), {"a b", "--", "-x"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(job.out, "ranks\n");
  EXPECT_EQ(job.err, "tasuki-run: " + (folder / "other").string() +
                         " is not a program of Tasuki: signals are passed on to it, and it is not "
                         "started again\n");
  ASSERT_EQ(calls().size(), 1u);
  EXPECT_THAT(calls()[0], ::testing::EndsWith("other a b -- -x"));
}

TEST_F(FakeLauncher, RefusedFlagsAreNotTriedAgain) {
  const Finished job = run("echo 'unknown option' >&2; exit 1", words({}));
  EXPECT_EQ(job.exit_code, 1);
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_EQ(job.err,
            "unknown option\nerror: mpirun could not start the ranks (exit code 1); it says why "
            "above\n");
}

TEST_F(FakeLauncher, SignalsAskTheJobToSaveAndStop) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const Finished job =
        run("trap 'echo saved; exit 79' USR1; trap 'exit 1' TERM INT HUP; touch ready\n"
            "while :; do sleep 0.05; done",
            words({}), when_ready({signal}));
    EXPECT_EQ(job.exit_code, 79) << job.all();
    EXPECT_EQ(job.out, "saved\n");
    EXPECT_THAT(job.err, HasSubstr("the job saves and stops"));
    EXPECT_EQ(calls().size(), 1u);
    fs::remove(folder / "ready");
  }
}

TEST_F(FakeLauncher, ASecondControlCEndsTheJobAtOnce) {
  const std::string plan =
      "trap : USR1; trap 'echo ended; exit 1' TERM; touch ready\n"
      "while :; do sleep 0.05; done";
  const Finished job = run(plan, words({}), when_ready({SIGINT, SIGINT}));
  EXPECT_EQ(job.exit_code, 130) << job.all();
  EXPECT_EQ(job.out, "ended\n");
  EXPECT_THAT(job.err, ::testing::EndsWith("ended by SIGINT; nothing was saved\n"));
  EXPECT_EQ(calls().size(), 1u);
  fs::remove(folder / "ready");
  const Finished slow =
      run("take " + out.string() + "; touch " + out.string() + "/snapshot_iter_5\n" + plan,
          words({"--stop-timeout", "0.3"}), when_ready({SIGTERM}));
  EXPECT_EQ(slow.exit_code, 143) << slow.all();
  EXPECT_THAT(slow.err, HasSubstr("has not stopped within 0.3 s (--stop-timeout)"));
  EXPECT_THAT(slow.err, HasSubstr("continue with --out " + out.string() + " --resume auto"));
}

// As mpirun does while it starts.
TEST_F(FakeLauncher, StopsAreRepeatedUntilTheyAreHeard) {
  const Finished job =
      run("n=0; trap '[ $((++n)) = 1 ] || exit 79' USR1; touch ready\n"
          "while :; do sleep 0.05; done",
          words({"--stop-timeout", "10"}), when_ready({SIGTERM}));
  EXPECT_EQ(job.exit_code, 79) << job.all();
  EXPECT_LT(job.seconds, 8);
}

TEST_F(FakeLauncher, TheThirdControlCKillsADeafLauncher) {
  const Finished job = run("trap '' USR1 TERM; touch ready; while :; do sleep 0.05; done",
                           words({}), when_ready({SIGUSR1, SIGINT, SIGINT, SIGINT}));
  EXPECT_EQ(job.exit_code, 128 + SIGUSR1) << job.all();
  EXPECT_LT(job.seconds, 4);
  EXPECT_THAT(job.err, HasSubstr("the job is saving; Ctrl-C again ends it at once\n"));
}

TEST_F(FakeLauncher, OtherProgramsAnswerSignalsThemselves) {
  const Finished job = run("trap 'exit 3' TERM; touch ready; while :; do sleep 0.05; done",
                           words({"--stop-timeout", "0"}, "other"), when_ready({SIGTERM}));
  EXPECT_EQ(job.exit_code, 3) << job.all();
}

// While the program is asked for its flags nothing has been started yet.
TEST_F(FakeLauncher, SignalsDuringTheCheckOfFlagsEndIt) {
  script("slow", "#!/bin/bash\n# --print-config\ntouch '" + (folder / "ready").string() +
                     "'; sleep 20 & wait\n");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const Finished job = run("exit 0", words({}, "slow"), when_ready({SIGUSR2, signal}));
    EXPECT_EQ(job.exit_code, 128 + signal) << job.all();
    EXPECT_FALSE(fs::exists(folder / "calls"));
    fs::remove(folder / "ready");
  }
}

TEST_F(FakeLauncher, ClosedStreamsAreLikeDevNull) {
  const auto with_closed = [&](const std::string& streams, const Words& words) {
    std::string line = "exec";
    for (const std::string& word : words) line += " '" + word + "'";
    return run("take " + out.string() + "; echo out; echo err >&2; exit 79",
               {"bash", "-c", line + streams});
  };
  for (const char* streams : {" <&- >&-", " <&- 2>&-", " <&- >&- 2>&-"}) {
    const Finished job = with_closed(streams, words({}));
    EXPECT_EQ(job.exit_code, 79) << streams << job.all();
    EXPECT_TRUE(fs::exists(out / "incidents.jsonl")) << streams;
    fs::remove_all(out);
  }
  EXPECT_EQ(with_closed(" 2>&-", {TASUKI_RUN, "--no-such-flag"}).exit_code, 64);
}

// Neither signals nor output are lost while nobody reads.
class UnreadErrors : public FakeLauncher {
 protected:
  // Runs the plan with standard error in a pipe that nobody reads until the job has written `sign`
  // and 0.5 s have passed; returns what was in the pipe then.
  std::string run_unread(const std::string& plan, int flags, int signal, int& exit_code) {
    std::ofstream(folder / "plan") << plan;
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), flags) != 0) throw std::runtime_error("pipe2");
    const pid_t child = fork();
    if (child == 0) {
      setpgid(0, 0);
      dup2(ends[1], STDERR_FILENO);
      setenv("PATH", path().c_str(), 1);
      Words all = words({"--stop-timeout", "20"});
      std::vector<char*> arguments;
      for (std::string& word : all) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(ends[1]);
    wait_for("ready");
    if (signal != 0) {
      kill(child, signal);
      wait_for("told");
    }
    fcntl(ends[0], F_SETFL, 0);
    std::string said;
    std::array<char, 4096> buffer;
    for (ssize_t n = 0; (n = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
      said.append(buffer.data(), static_cast<std::size_t>(n));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return said;
  }
  void wait_for(const std::string& name) {
    for (int i = 0; i < 100 && !fs::exists(folder / name); ++i) usleep(50'000);
    EXPECT_TRUE(fs::exists(folder / name));
  }
  const std::string much = "head -c 300000 /dev/zero | tr '\\0' x >&2";
};

TEST_F(UnreadErrors, DoNotKeepSignalsWaiting) {
  int exit_code = 0;
  const std::string said = run_unread("trap 'touch told; kill $!; exit 79' USR1; " + much +
                                          " & touch ready; while :; do sleep 0.05; done",
                                      O_CLOEXEC, SIGTERM, exit_code);
  EXPECT_EQ(exit_code, 79);
  EXPECT_THAT(said, HasSubstr("SIGTERM: the job saves and stops"));
}

TEST_F(UnreadErrors, AreAllShownLater) {
  for (const int flags : {O_CLOEXEC, O_CLOEXEC | O_NONBLOCK}) {
    int exit_code = 0;
    const std::string said = run_unread("touch ready; " + much + "; exit 79", flags, 0, exit_code);
    EXPECT_EQ(exit_code, 79);
    EXPECT_EQ(said, std::string(300000, 'x'));
    fs::remove(folder / "ready");
  }
}

// Ctrl-Z. mpirun stops and continues its ranks on these signals.
TEST_F(FakeLauncher, StopsAndContinuesWithTheTerminal) {
  int step = 0;
  const Finished job =
      run("trap 'touch stopped' TSTP; trap 'touch continued' CONT; touch ready\n"
          "until [ -e continued ]; do sleep 0.05; done",
          words({}), [&](pid_t program) {
            if (step == 0 && fs::exists(folder / "ready"))
              step += kill(program, SIGTSTP) == 0 ? 1 : 0;
            const auto state = process_state(program);
            if (step == 1 && fs::exists(folder / "stopped") && state && state->is_stopped())
              step += kill(program, SIGCONT) == 0 ? 1 : 0;
          });
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(step, 2);
}

TEST_F(FakeLauncher, OtherSignalsArePassedOn) {
  const Finished job =
      run("trap 'echo asked; touch answered' USR2; touch ready\n"
          "until [ -e answered ]; do sleep 0.05; done",
          words({}), when_ready({SIGUSR2}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(job.out, "asked\n");
}

TEST_F(FakeLauncher, WaitingForARestartCanBeEnded) {
  bool is_sent = false;
  const Finished job = run("take " + out.string() + "; exit 74", words({}), [&](pid_t supervisor) {
    if (is_sent || !has_said(out, "failure")) return;
    is_sent = kill(supervisor, SIGTERM) == 0;
  });
  EXPECT_EQ(job.exit_code, 143) << job.all();
  EXPECT_LT(job.seconds, 10);
}

TEST_F(FakeLauncher, NothingIsLeftBehind) {
  const auto is_alive = [&](const std::string& name) {
    return kill(std::stoi(read(name)), 0) == 0;
  };
  const Finished job =
      run("setsid sleep 100 & echo $! > left; exit 3", words({"--max-restarts", "0"}));
  EXPECT_EQ(job.exit_code, 3);
  EXPECT_FALSE(is_alive("left"));

  // Also where tasuki-run itself is killed: the launcher is told to end.
  run("trap 'touch told; exit 1' TERM; touch ready; while :; do sleep 0.05; done", words({}),
      when_ready({SIGKILL}));
  for (int i = 0; i < 100 && !fs::exists(folder / "told"); ++i) usleep(50'000);
  EXPECT_TRUE(fs::exists(folder / "told"));
}

TEST_F(FakeLauncher, MayBeSrun) {
  const Finished job = run("exit 0", words({"--launcher", "srun"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  ASSERT_EQ(calls().size(), 1u);
  EXPECT_EQ(calls()[0],
            "srun --kill-on-bad-exit=1 --ntasks=2 --mpi=pmix " + (folder / "train").string());
}

// A host answers where there is a file of its name.
class FakeHosts : public FakeLauncher {
 protected:
  FakeHosts() {
    std::ofstream(folder / "hosts") << "a slots=1\nb slots=1\n";
    script("agent", "#!/bin/bash\n[ -e '" + folder.path().string() + "'/$1 ]\n");
    std::ofstream(folder / "a");
  }
  Words words_on_hosts(const Words& flags) {
    return words(with({"--hostfile", folder / "hosts", "--mpirun-args",
                       "--mca plm_rsh_agent " + (folder / "agent").string()},
                      flags));
  }
};

TEST_F(FakeHosts, ComeAndGo) {
  const Finished job =
      run("take " + out.string() +
              "; while [ \"$1\" != --hostfile ]; do shift; done; cat $2 > hosts$n\n"
              "touch " +
              out.string() + "/snapshot_iter_$n; [ $n != 2 ] || touch b; [ $n = 3 ] || exit 205",
          words_on_hosts({"--min-np", "1"}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  ASSERT_EQ(calls().size(), 3u);
  EXPECT_THAT(calls()[1], HasSubstr("mpirun -np 1 "));
  EXPECT_THAT(calls()[2], HasSubstr("mpirun -np 2 "));
  EXPECT_EQ(read("hosts1"), "a slots=1\nb slots=1\n");
  EXPECT_EQ(read("hosts2"), "a slots=1\n");
  EXPECT_EQ(read("hosts3"), read("hosts1"));
  EXPECT_THAT(job.err, HasSubstr("b does not answer and is left out\n"));
  EXPECT_THAT(job.err, HasSubstr("1 rank instead of 2 on a, and so another global batch"));
  EXPECT_THAT(job.err, HasSubstr("b answers again\n"));
  EXPECT_THAT(Events(out).names(), ElementsAre("start", "failure", "host_lost", "restart", "start",
                                               "failure", "host_back", "restart", "start", "end"));
}

// What was saved may need as many ranks as before.
TEST_F(FakeHosts, AreWaitedForIfFewerRanksCannotGoOn) {
  const auto return_when_missed = [&](pid_t) {
    if (has_said(out, "waiting_for_hosts")) std::ofstream(folder / "b");
  };
  const Finished job = run("take " + out.string() +
                               "; case $n in 1) exit 205;; 2) echo 'error: 2 ranks, not 1' >&2; "
                               "exit 78;; esac",
                           words_on_hosts({"--min-np", "1"}), return_when_missed);
  EXPECT_EQ(job.exit_code, 0) << job.all();
  ASSERT_EQ(calls().size(), 3u) << job.all();
  EXPECT_THAT(calls()[1], HasSubstr("mpirun -np 1 "));
  EXPECT_THAT(calls()[2], HasSubstr("mpirun -np 2 "));
  EXPECT_THAT(job.err, HasSubstr("cannot go on with fewer ranks; it starts again with all\n"));
  EXPECT_THAT(job.err, HasSubstr("waiting for b at most 600 s"));
}

TEST_F(FakeHosts, MayHaveAFolderThatIsNotSeenHere) {
  const Finished job = run("echo 'rank 0 on a: broken' >&2; exit 70", words_on_hosts({}));
  EXPECT_EQ(job.exit_code, 70);
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_EQ(job.err,
            "rank 0 on a: broken\ntasuki-run: no restart: " + out.string() +
                " cannot be seen on this machine, so nothing says what was saved; give --resume "
                "auto, or --out on a disk that all machines share\nrank 0 on a: broken\n");
}

TEST_F(FakeHosts, MayComeFromAPipe) {
  const std::string plan =
      "while [ \"$1\" != --hostfile ]; do shift; done; cat $2 > found; cat $2 >> found";
  const Finished job =
      run(plan, {"/bin/bash", "-c",
                 "exec " + std::string(TASUKI_RUN) + " --hostfile <(cat " +
                     (folder / "hosts").string() + ") " + (folder / "train").string()});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(read("found"), read("hosts") + read("hosts"));
}

TEST_F(FakeHosts, NeedSlotsForFewerRanks) {
  std::ofstream(folder / "hosts") << "a\nb\n";
  const Finished job = run(
      "exit 0", {TASUKI_RUN, "--hostfile", folder / "hosts", "--min-np", "1", folder / "train"});
  EXPECT_EQ(job.exit_code, 64);
  EXPECT_EQ(job.err,
            "error: --min-np: expected -np N, or slots=N on each line of --hostfile, found "
            "neither\n");
}

TEST_F(FakeHosts, ThatStayAwayEndTheJob) {
  const Finished job =
      run("take " + out.string() + "; exit 205", words_on_hosts({"--host-timeout", "0"}));
  EXPECT_EQ(job.exit_code, 205) << job.all();
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_THAT(job.err, HasSubstr("waiting for b at most 0 s (--host-timeout)\n"));
  EXPECT_THAT(job.err, HasSubstr("giving up: b did not answer within 0 s\n"));
}

// What the launcher finds: the terminal itself, and for errors one of the same size.
TEST_F(FakeLauncher, TerminalsStayTerminals) {
  std::ofstream(folder / "plan") << "[ -t 1 ] && [ -t 2 ] && stty size <&1 && stty size <&2\n"
                                    "printf 'a\\nb' >&2\n";
  winsize size{33, 77, 0, 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv("PATH", path().c_str(), 1);
    Words all = words({});
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  std::string said;
  std::array<char, 256> buffer;
  for (ssize_t n = 0; (n = ::read(terminal, buffer.data(), buffer.size())) > 0;)
    said.append(buffer.data(), static_cast<std::size_t>(n));
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(said, "33 77\r\n33 77\r\na\r\nb");
  EXPECT_EQ(status, 0);
}

class RealLauncher : public TrainMnist {
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

  static constexpr int iterations = 600;
  const Words training = {
      "--epoch", "100", "--max-iterations", std::to_string(iterations), "--checkpoint-every",
      "20it"};
};

TEST_F(RealLauncher, KilledRanksChangeNothing) {
  const Finished calm = run_program(supervised("calm", training));
  ASSERT_EQ(calm.exit_code, 0) << calm.all();

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
  EXPECT_EQ(count_of(job.err, "ended by signal 9 (Killed)); restart 1 of 3 in 1 s from /"), 1)
      << job.err;
  EXPECT_EQ(final_weights("killed"), final_weights("calm"));
  EXPECT_THAT(Events(folder / "killed").names(),
              ElementsAre("start", "failure", "restart", "start", "end"));
}

TEST_F(RealLauncher, ControlCSavesAndStops) {
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

// Neither processes nor files are left of a launcher that was killed.
TEST_F(RealLauncher, KilledLaunchersLeaveNothing) {
  pid_t launcher = 0;
  std::vector<pid_t> killed;
  const Finished job =
      run_program(supervised("result", with(training, {"--max-iterations", "100000"})), 60, {},
                  [&](pid_t supervisor) {
                    if (launcher == 0 && has_checkpoint("result", 60)) {
                      killed = ranks(supervisor);
                      for (const pid_t each : descendants(supervisor))
                        if (const auto state = process_state(each);
                            state && std::string_view(state->name.data()) == "mpirun")
                          launcher = each;
                      if (launcher > 0) kill(launcher, SIGKILL);
                    } else if (launcher != 0 && ranks(supervisor) != killed &&
                               fs::exists(folder / "result/incidents.jsonl") &&
                               Events(folder / "result").names().back() == "start") {
                      kill(supervisor, SIGTERM);
                    }
                  });
  EXPECT_EQ(count_of(job.err, "restart 1 of 3"), 1) << job.err;
  for (const pid_t rank : killed) EXPECT_FALSE(process_state(rank)) << rank;
  for (const auto& host : fs::directory_iterator(fs::temp_directory_path()))
    EXPECT_FALSE(fs::exists(host.path() / ("pid." + std::to_string(launcher)))) << host.path();
}

TEST_F(RealLauncher, ErrorsAreTheLastLine) {
  const Finished job = run_program(supervised("result", {"--shards", "3"}));
  EXPECT_EQ(job.exit_code, 78) << job.all();
  EXPECT_EQ(count_of(job.err, "\n"), 1) << job.err;
  EXPECT_THAT(job.err, HasSubstr("3 shards cannot be shared"));
}

class LostHosts : public TrainMnist {
 protected:
  // On two nodes with two ranks each, the second of which is cut off once there is `sign`.
  Finished run_and_cut(const Words& flags, const Words& program, const fs::path& sign) {
    std::string line = "exec";
    for (const std::string& word :
         with(with({TASUKI_RUN, "-np", "4", "--hostfile", "/run/hostfile"}, flags), program))
      line += " '" + word + "'";
    return run_program({CLUSTER_RUN, "--slots", "2,2", "--cut", sign, "--shell", "--", line}, 100);
  }
};

TEST_F(LostHosts, AreLeftOutIfFewerRanksAreAllowed) {
  const Finished job =
      run_and_cut({"--min-np", "2"},
                  program("result", {"--shards", "4", "--global-batch", "48", "--epoch", "100",
                                     "--checkpoint-every", "20it", "--resume", "auto",
                                     "--max-iterations", "800"}),
                  folder / "result/checkpoints/iter_60");
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_TRUE(fs::exists(folder / "result/snapshot_iter_800"));
  EXPECT_EQ(count_of(job.err, "node2 does not answer and is left out"), 1) << job.err;
  EXPECT_EQ(count_of(job.err, "2 ranks instead of 4 on node1\n"), 1) << job.err;
  const Events events(folder / "result");
  EXPECT_THAT(events.names(),
              ElementsAre("start", "failure", "host_lost", "restart", "start", "end"));
  EXPECT_EQ(events[2].at("host"), "node2");
  EXPECT_EQ(events[4].at("np"), 2);
  EXPECT_EQ(events[4].at("hosts"), Words{"node1"});
}

// Started in the allocation by mpirun or by srun; Slurm's warning saves.
TEST_F(TrainMnist, SlurmJobsAreSupervised) {
  const auto run_in_slurm = [this](const std::string& launcher) {
    std::string line = "exec";
    for (const std::string& word :
         with({TASUKI_RUN, "--launcher", launcher},
              program(launcher, {"--epoch", "100000", "--log-every", "1"})))
      line += " '" + word + "'";
    return run_program({SLURM_RUN, "2", "--signal", folder / (launcher + "/log"), "--", line});
  };
  // At once, as most of the time Slurm waits.
  auto with_srun = std::async(std::launch::async, run_in_slurm, "srun");
  for (const Finished& job : {run_in_slurm("mpirun"), with_srun.get()}) {
    if (job.exit_code == 77) GTEST_SKIP() << job.all();
    EXPECT_EQ(job.exit_code, 79) << job.all();
    EXPECT_EQ(count_of(job.out, "Num process (COMM_WORLD): 2\n"), 1) << job.all();
    EXPECT_EQ(count_of(job.out, "SIGUSR1: the job saves and stops\n"), 1) << job.all();
    EXPECT_EQ(count_of(job.out, "stopped and saved after iteration "), 1) << job.all();
  }
}

}  // namespace
}  // namespace tasuki::testing
