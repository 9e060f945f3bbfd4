// What tasuki-run does with its standard streams: closed, unread, or terminals.
#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tasuki_run_job.hpp"

namespace tasuki::testing {
namespace {

TEST_F(TasukiRun, PassesOnOutput) {
  const Finished job = run("echo out; echo err >&2", words({}));
  EXPECT_EQ(job.out, "out\n");
  EXPECT_EQ(job.err, "err\n");
}

// A loop that reads lines keeps them.
TEST_F(TasukiRun, ReadsInputOnlyOnRequest) {
  const auto loop = [&](const Words& flags) {
    return run("cat >> input", with({"bash", "-c",
                                     "printf 'one\\ntwo\\n' | while read line; do "
                                     "echo $line; \"$@\"; done",
                                     "bash"},
                                    words(flags)));
  };
  const Finished job = loop({});
  EXPECT_EQ(job.out, "one\ntwo\n") << job.all();
  EXPECT_EQ(read("input"), "");
  EXPECT_EQ(loop({"--stdin"}).out, "one\n");
  EXPECT_EQ(read("input"), "two\n");
}

TEST_F(TasukiRun, TreatsClosedStreamsLikeDevNull) {
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

class UnreadOutput : public TasukiRun {
 protected:
  // With the words of tasuki-run in $@; the exit code is tasuki-run's.
  Finished run_in_shell(const std::string& plan, const std::string& line, const Words& words) {
    return run(plan, with({"bash", "-c", line + "; exit ${PIPESTATUS[0]}", "bash"}, words));
  }
  // Prints once a second, and saves when it is asked.
  const std::string training = "take " + out.string() +
                               "; trap 'echo asked > told; exit 79' USR1; trap 'exit 1' PIPE\n"
                               "while :; do echo line; sleep 0.3 & wait $!; done";
  const std::string into_head = "\"$@\" | head -1";
};

TEST_F(UnreadOutput, EndsTheJobWithoutARestart) {
  const Finished job = run_in_shell(training, into_head, words({}));
  EXPECT_EQ(job.exit_code, 79) << job.all();
  EXPECT_LT(job.seconds, 5 * patience());
  EXPECT_EQ(job.out, "line\n");
  EXPECT_EQ(job.err, "tasuki-run: nobody reads the output any more: the job saves and stops\n");
  EXPECT_EQ(read("told"), "asked\n");
  EXPECT_EQ(calls().size(), 1u);
  const Events events(out);
  EXPECT_THAT(events.names(), ElementsAre("start", "stop", "end"));
  EXPECT_EQ(events[1].at("signal"), "SIGPIPE");
}

TEST_F(UnreadOutput, LeavesLittleTimeToSave) {
  const Finished job = run_in_shell("take " + out.string() + "; touch " + out.string() +
                                        "/snapshot_iter_5\ntrap : USR1 PIPE; trap 'exit 1' TERM\n"
                                        "while :; do echo line; sleep 0.1; done",
                                    into_head, words({"--stop-timeout", "0.5"}));
  EXPECT_EQ(job.exit_code, 128 + SIGPIPE) << job.all();
  EXPECT_LT(job.seconds, 5 * patience());
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_THAT(job.err, HasSubstr("the job has not stopped within 0.5 s; ending it\n"));
  EXPECT_THAT(job.err, ::testing::EndsWith("ended by SIGPIPE; continue with --out " + out.string() +
                                           " --resume auto\n"));
}

// mpirun may be quicker: it ends by itself.
TEST_F(UnreadOutput, IsDetectedBeforeARestart) {
  const Finished job = run_in_shell(
      "take " + out.string() + "; echo a; until [ -e gone ]; do sleep 0.01; done; exit 1",
      "\"$@\" | { read -r line; exec <&-; touch " + (folder / "gone").string() + "; }", words({}));
  EXPECT_NE(job.exit_code, 0);
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_EQ(count_of(job.err, "nobody reads the output any more"), 1) << job.err;
  EXPECT_EQ(count_of(job.err, "restart 1"), 0) << job.err;
}

TEST_F(UnreadOutput, EndsOtherPrograms) {
  const Finished job =
      run_in_shell("trap 'exit 1' TERM; trap : PIPE; while :; do echo line; sleep 0.1; done",
                   into_head, words({"--max-restarts", "3"}, "other"));
  EXPECT_EQ(job.exit_code, 128 + SIGPIPE) << job.all();
  EXPECT_LT(job.seconds, 5 * patience());
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_THAT(job.err, ::testing::EndsWith("nobody reads the output any more: ending the job\n"));
}

// A launcher whose ranks have ended is not stuck while a pager keeps it from printing the rest.
TEST_F(UnreadOutput, IsLeftToAPausedReader) {
  const Finished job = run_in_shell(
      "trap : USR1; sleep 1.5; trap - USR1\n"
      "for ((i = 0; i < 20000; ++i)); do echo 0123456789; done; exit 79",
      "\"$@\" | { sleep 9; wc -l; }", words({}));
  EXPECT_EQ(job.exit_code, 79) << job.all();
  EXPECT_EQ(job.out, "20000\n");
}

// Files and closed streams have no reader that could go away.
TEST_F(UnreadOutput, ExcludesFilesAndClosedStreams) {
  const std::string plan = "take " + out.string() + "; save $n; echo line; [ $n = 2 ] || exit 74";
  for (const std::string& to : {"> " + (folder / "file").string(), std::string(">&-")}) {
    const Finished job = run_in_shell(plan, "\"$@\" " + to, words({}));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(calls().size(), 2u) << to;
    EXPECT_EQ(count_of(job.err, "nobody reads"), 0) << job.err;
  }
  EXPECT_EQ(read("file"), "line\nline\n");
}

// The errors of a job are read by tasuki-run, which goes on without a reader of its own.
TEST_F(UnreadOutput, IsDetectedForStderrOnly) {
  const Finished job = run_in_shell(
      "take " + out.string() +
          "; save $n; for i in 1 2 3; do echo 'error: broken' >&2; sleep 0.1; done; [ $n = 2 ] || "
          "exit 74",
      "{ \"$@\" 2>&1 >&3 | true; } 3>&1; set -- ${PIPESTATUS[0]}; (exit $1)", words({}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(calls().size(), 2u);
  EXPECT_THAT(Events(out).names(), ElementsAre("start", "failure", "restart", "start", "end"));
}

// Neither signals nor output are lost while nobody reads.
class UnreadErrorOutput : public TasukiRun {
 protected:
  // Runs the plan with standard error in a pipe that nobody reads until the job has written `sign`
  // and `seconds` have passed; returns what was written into the pipe.
  std::string run_unread(const std::string& plan, int flags, int signal, int& exit_code,
                         unsigned seconds = 0) {
    std::ofstream(folder / "plan") << plan;
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), flags) != 0) throw std::runtime_error("pipe2");
    const pid_t child = fork();
    if (child == 0) {
      setpgid(0, 0);
      dup2(ends[1], STDERR_FILENO);
      for (const auto& [name, value] : environment()) setenv(name.c_str(), value.c_str(), 1);
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
    sleep(seconds);
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
  void wait_for(const std::string& name) { EXPECT_TRUE(appears(name)); }
  const std::string much = "head -c 300000 /dev/zero | tr '\\0' x >&2";
};

TEST_F(UnreadErrorOutput, DoesNotDelaySignals) {
  int exit_code = 0;
  const std::string said = run_unread("trap 'touch told; kill $!; exit 79' USR1; " + much +
                                          " & touch ready; while :; do sleep 0.05; done",
                                      O_CLOEXEC, SIGTERM, exit_code);
  EXPECT_EQ(exit_code, 79);
  EXPECT_THAT(said, HasSubstr("SIGTERM: the job saves and stops"));
}

// A launcher whose ranks have ended is not stuck while tasuki-run cannot pass on what it prints.
TEST_F(UnreadErrorOutput, KeepsTheLauncherFromEnding) {
  int exit_code = 0;
  const std::string said = run_unread(
      "stop() { trap - USR1; line=$(printf %300000s); touch told; echo \"$line\" >&2; exit 79; }\n"
      "trap stop USR1; touch ready; while :; do sleep 0.05; done",
      O_CLOEXEC, SIGTERM, exit_code, 8);
  EXPECT_EQ(exit_code, 79);
  EXPECT_GT(said.size(), 300000u);
}

TEST_F(UnreadErrorOutput, IsShownInFullLater) {
  for (const int flags : {O_CLOEXEC, O_CLOEXEC | O_NONBLOCK}) {
    int exit_code = 0;
    const std::string said = run_unread("touch ready; " + much + "; exit 79", flags, 0, exit_code);
    EXPECT_EQ(exit_code, 79);
    EXPECT_EQ(said, std::string(300000, 'x'));
    fs::remove(folder / "ready");
  }
}

// What the launcher finds: the terminal itself, and for errors one of the same size.
TEST_F(TasukiRun, KeepsTerminals) {
  std::ofstream(folder / "plan") << "[ -t 1 ] && [ -t 2 ] && stty size <&1 && stty size <&2\n"
                                    "printf 'a\\nb' >&2\n";
  winsize size{33, 77, 0, 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (const auto& [name, value] : environment()) setenv(name.c_str(), value.c_str(), 1);
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

}  // namespace
}  // namespace tasuki::testing
