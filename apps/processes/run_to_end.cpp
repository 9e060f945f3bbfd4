#include "processes/run_to_end.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "processes/orphans.hpp"
#include "tasuki/core/error.hpp"

namespace tasuki::processes {
namespace {

constexpr double grace = 10;  // seconds between SIGTERM and SIGKILL
constexpr std::chrono::milliseconds poll_interval{20};

std::atomic<int> signal_met = 0;

double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void check(bool is_fine, const char* what) {
  if (!is_fine) fail(ErrorKind::io, "{}: {}", what, std::strerror(errno));
}

int open_file(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0)
    fail(ErrorKind::cannot_write, "{} cannot be written: {}", path.string(), std::strerror(errno));
  return file;
}

// In the new process; only calls that are safe after fork.
[[noreturn]] void become(char* const* arguments, int out, int err, pid_t parent) {
  setpgid(0, 0);
  // If this process is killed, mpirun gets a signal and ends its ranks.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execvp(arguments[0], arguments);
  dprintf(STDERR_FILENO, "%s cannot be started: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

// Waits for `child` and returns its status; other children that end meanwhile are reaped and
// forgotten.
bool has_ended(pid_t child, int& status) {
  for (;;) {
    int one = 0;
    const pid_t ended = waitpid(-1, &one, WNOHANG);
    if (ended == child) {
      status = one;
      return true;
    }
    if (ended <= 0) return false;
  }
}

}  // namespace

void take_over_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { signal_met = number; };
  check(sigaction(SIGINT, &action, nullptr) == 0, "sigaction");
  check(sigaction(SIGTERM, &action, nullptr) == 0, "sigaction");
  adopt_orphans();
}

bool was_interrupted() {
  return signal_met != 0;
}

int interrupting_signal() {
  return signal_met;
}

EndedProcess run_to_end(const std::vector<std::string>& words, const OutputFiles& files,
                        double timeout) {
  EndedProcess ended;
  if (was_interrupted()) return {HowEnded::interrupted, 128 + signal_met, 0};
  const int out = open_file(files.out), err = files.err.empty() ? out : open_file(files.err);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  const double start = seconds_now();
  const pid_t parent = getpid(), child = fork();
  check(child >= 0, "fork");
  if (child == 0) become(arguments.data(), out, err, parent);
  setpgid(child, child);  // in both, as either may come first
  close(out);
  if (err != out) close(err);

  int status = 0;
  double asked_to_end = 0;
  while (!has_ended(child, status)) {
    const double now = seconds_now();
    if (asked_to_end == 0 && (was_interrupted() || now - start > timeout)) {
      ended.how = was_interrupted() ? HowEnded::interrupted : HowEnded::timed_out;
      asked_to_end = now;
      kill(-child, SIGTERM);
    }
    if (asked_to_end != 0 && now - asked_to_end > grace) kill(-child, SIGKILL);
    std::this_thread::sleep_for(poll_interval);
  }
  ended.seconds = seconds_now() - start;
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  kill(-child, SIGKILL);
  end_orphans();
  return ended;
}

}  // namespace tasuki::processes
