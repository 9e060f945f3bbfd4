#include "supervisor/job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "processes/orphans.hpp"
#include "supervisor/error_stream.hpp"
#include "tasuki/core/error.hpp"

namespace tasuki::supervisor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds tick{1};           // of JobWatch::meanwhile
constexpr std::chrono::milliseconds pause{300};   // of mpirun within a paragraph, at most
constexpr std::chrono::seconds launchers_end{5};  // that SIGTERM gives the launcher

// In the new process; only calls that are safe after fork.
[[noreturn]] void become(char* const* arguments, int errors, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  forget_signals();
  if (isatty(STDIN_FILENO) != 0) {
    // Only the foreground may read from a terminal.
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
  }
  dup2(errors, STDERR_FILENO);
  execvp(arguments[0], arguments);
  dprintf(STDERR_FILENO, "error: %s cannot be started: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

pid_t start(const Launch& launch, int errors) {
  for (const auto& [name, value] : launch.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  arguments.reserve(launch.words.size() + 1);
  for (const std::string& word : launch.words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) fail(ErrorKind::io, "fork: {}", std::strerror(errno));
  if (child == 0) become(arguments.data(), errors, parent);
  setpgid(child, child);  // in both, as either may come first
  return child;
}

void show(const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(STDERR_FILENO, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the reader has gone away
    written += static_cast<std::size_t>(n);
  }
}

class RunningJob {
 public:
  RunningJob(const Launch& launch, bool leave_out, double stop_timeout, const Signals& signals,
             StopRequest& stop, const JobWatch& watch)
      : text_(leave_out),
        stop_timeout_(stop_timeout),
        signals_(signals),
        stop_(stop),
        watch_(watch),
        launcher_(start(launch, errors_.writer())) {
    errors_.close_writer();
  }

  JobEnd wait() {
    int status = 0;
    while (!has_ended(status)) {
      std::array<pollfd, 2> arrivals = {pollfd{signals_.descriptor(), POLLIN, 0},
                                        pollfd{is_open_ ? errors_.reader() : -1, POLLIN, 0}};
      poll(arrivals.data(), arrivals.size(), static_cast<int>(pause.count()));
      if (arrivals[1].revents != 0) pass_errors();
      while (const int signal = signals_.next()) answer(signal);
      keep_time();
    }
    processes::end_orphans();  // above all ranks, if the launcher was killed
    pass_errors();
    show(text_.release());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_.cause(),
            text_.is_cause_last()};
  }

 private:
  // Reaps orphans, too, whose end nobody else waits for.
  bool has_ended(int& status) {
    for (int one = 0;;) {
      const pid_t ended = waitpid(-1, &one, WNOHANG);
      if (ended == launcher_) {
        status = one;
        return true;
      }
      if (ended <= 0) return false;
    }
  }

  void pass_errors() {
    std::string bytes;
    is_open_ = is_open_ && errors_.read(bytes);
    if (bytes.empty()) return;
    last_bytes_ = Clock::now();
    show(text_.pass(bytes));
  }

  void answer(int signal) {
    if (signal == SIGWINCH) errors_.follow_size();
    if (signal == SIGWINCH || signal == SIGCHLD) return;
    const bool was_made = stop_.is_made();
    const StopAction action = stop_.on_signal(signal);
    if (signal != SIGUSR2) watch_.on_stop(action, signal);
    switch (action) {
      case StopAction::none:
        break;
      case StopAction::save_and_stop:
        kill(launcher_, SIGUSR1);
        break;
      case StopAction::end_at_once:
        end();
        break;
      case StopAction::pass_on:
        // mpirun that has not got so far would be ended by a question.
        if (signal != SIGUSR2 || catches(launcher_, signal)) kill(launcher_, signal);
        break;
    }
    if (stop_.is_made() && !was_made) stop_until_ = Clock::now() + to_duration(stop_timeout_);
  }

  static Clock::duration to_duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  void end() {
    kill(launcher_, SIGTERM);
    stop_until_.reset();
    kill_at_ = Clock::now() + launchers_end;
  }

  void keep_time() {
    const auto now = Clock::now();
    if (text_.is_holding() && now - last_bytes_ > pause) show(text_.release());
    if (stop_until_ && now > *stop_until_) {
      watch_.on_stop(StopAction::end_at_once, 0);
      end();
    }
    // mpirun waits without a limit for hosts that it cannot reach.
    if (kill_at_ && now > *kill_at_) kill(-launcher_, SIGKILL);
    if (now < next_tick_) return;
    next_tick_ = now + tick;
    watch_.meanwhile();
  }

  ErrorStream errors_;
  LauncherText text_;
  double stop_timeout_;
  const Signals& signals_;
  StopRequest& stop_;
  const JobWatch& watch_;
  pid_t launcher_;
  bool is_open_ = true;
  Clock::time_point last_bytes_, next_tick_ = Clock::now() + tick;
  std::optional<Clock::time_point> stop_until_, kill_at_;
};

}  // namespace

JobEnd run_job_once(const Launch& launch, bool leave_out_launchers_text, double stop_timeout,
                    const Signals& signals, StopRequest& stop, const JobWatch& watch) {
  return RunningJob(launch, leave_out_launchers_text, stop_timeout, signals, stop, watch).wait();
}

}  // namespace tasuki::supervisor
