// What tasuki-run does with its standard streams: closed, unread, or terminals.
#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tasuki_run_job.hpp"

namespace tasuki::testing {
namespace {

TEST_F(FakeLauncher, OutputIsPassedOn) {
  const Finished job = run("echo out; echo err >&2", words({}));
  EXPECT_EQ(job.out, "out\n");
  EXPECT_EQ(job.err, "err\n");
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

}  // namespace
}  // namespace tasuki::testing
