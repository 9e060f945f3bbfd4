#include "job/job_end.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>
#include <thread>

#include "core/printable.hpp"
#include "core/process_state.hpp"
#include "job/launcher.hpp"

namespace tasuki {
namespace {

constexpr int milliseconds_to_end = 5000, milliseconds_after_term = 2000,
              milliseconds_of_ranks = 500;

// Between fork and _exit only what POSIX allows in a signal handler: the other threads are gone,
// and locks that they held stay locked.

void nap(int milliseconds) {
  timespec time{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  while (nanosleep(&time, &time) != 0 && errno == EINTR) {
  }
}

// A process, identified after open() by a handle if the system has them (Linux 5.3), so that a
// later process with the same number is never meant.
class Target {
 public:
  explicit Target(pid_t process) : process_(process) {}
  void open() { handle_ = static_cast<int>(syscall(SYS_pidfd_open, process_, 0)); }

  void send(int signal) const {
    if (handle_ >= 0)
      syscall(SYS_pidfd_send_signal, handle_, signal, nullptr, 0);
    else
      kill(process_, signal);
  }

  bool ends_within(int milliseconds) const {
    if (handle_ >= 0) {
      pollfd end{handle_, POLLIN, 0};
      return poll(&end, 1, milliseconds) > 0;
    }
    constexpr int look = 50;
    for (int waited = 0; kill(process_, 0) == 0; waited += look) {
      if (waited >= milliseconds) return false;
      nap(look);
    }
    return true;
  }

 private:
  pid_t process_;
  int handle_ = -1;
};

void leave_surroundings() {
  setsid();  // mpirun signals the process groups of its ranks
  prctl(PR_SET_NAME, "tasuki_end");
  // Above all mpirun's pipes, whose readers would otherwise wait for this process.
  if (syscall(SYS_close_range, 0U, ~0U, 0U) != 0)
    for (long file = sysconf(_SC_OPEN_MAX); file-- > 0;) close(static_cast<int>(file));
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void end_launcher(Target& launcher, bool is_daemon, std::span<Target> ranks) {
  leave_surroundings();
  launcher.open();
  for (Target& rank : ranks) rank.open();
  if (!launcher.ends_within(milliseconds_to_end)) {
    // A daemon cleans up after itself. mpirun (4.1) that gets SIGTERM while it ends a job crashes
    // with a segmentation fault and prints its stack.
    if (is_daemon) launcher.send(SIGTERM);
    if (!is_daemon || !launcher.ends_within(milliseconds_after_term)) launcher.send(SIGKILL);
    launcher.ends_within(milliseconds_after_term);
  }
  nap(milliseconds_of_ranks);
  for (const Target& rank : ranks) rank.send(SIGKILL);
  _exit(0);
}

}  // namespace

void ensure_launcher_ends() {
  const pid_t process = launcher_process();
  const char* const job = std::getenv("PMIX_NAMESPACE");
  const bool ends_with_job =
      was_started_by_hydra() || (job != nullptr && is_launcher_of_one_job(job));
  if (process == 0 || !ends_with_job) return;
  const auto state = process_state(process);
  const bool is_daemon = state && is_daemon_name(state->name.data());
  Target launcher(process);
  std::vector<Target> ranks;
  for (const pid_t each : descendants(process)) ranks.emplace_back(each);
  // Handlers of this process must not run in the other one.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // Unlike fork, _Fork takes no locks (of malloc or of libraries) that a failing thread may hold.
  // If it fails, the launcher is on its own as before.
  if (_Fork() == 0) end_launcher(launcher, is_daemon, ranks);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Processes = std::vector<pid_t>;

constexpr std::chrono::milliseconds look{50};
constexpr std::chrono::seconds own_end{1};  // that a process has which is about to end
constexpr std::chrono::seconds after_term{2};

bool has(const Processes& processes, pid_t one) {
  return std::ranges::find(processes, one) != processes.end();
}

Processes ancestors() {
  Processes found;
  for (pid_t process = getppid(); process > 1;) {
    found.push_back(process);
    const auto state = process_state(process);
    process = state ? state->parent : 0;
  }
  return found;
}

// Whether the process can write to this open file by one of its descriptors.
bool holds(pid_t process, const struct stat& file) {
  std::error_code gone;
  for (fs::directory_iterator each(fmt::format("/proc/{}/fd", process), gone), end;
       !gone && each != end; each.increment(gone)) {
    struct stat held {};
    if (stat(each->path().c_str(), &held) != 0 || held.st_dev != file.st_dev ||
        held.st_ino != file.st_ino)
      continue;
    // Links in /proc/PID/fd have the mode in which the file is open.
    struct stat link {};
    if (lstat(each->path().c_str(), &link) == 0 && (link.st_mode & S_IWUSR) != 0) return true;
  }
  return false;
}

// A pipe or a terminal, which has a reader that waits for its end.
std::vector<struct stat> awaited_outputs() {
  std::vector<struct stat> files;
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat file {};
    if (fstat(descriptor, &file) == 0 && (S_ISFIFO(file.st_mode) || isatty(descriptor) != 0))
      files.push_back(file);
  }
  return files;
}

// A process that no launcher of Open MPI has started has a daemon of its own, which ends after it.
bool is_daemon(pid_t process) {
  const auto state = process_state(process);
  return state && is_daemon_name(state->name.data());
}

// "4711 (sleep 1000), 4712 (tee)"
std::string text_of(const Processes& processes) {
  constexpr std::size_t longest_command = 60;
  std::string text;
  for (const pid_t process : processes) {
    std::ifstream file(fmt::format("/proc/{}/cmdline", process));
    std::string command{std::istreambuf_iterator<char>(file), {}};
    while (command.ends_with('\0')) command.pop_back();
    std::ranges::replace(command, '\0', ' ');
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", process,
                        printable(command, longest_command));
  }
  return text;
}

bool are_gone_by(Clock::time_point end) {
  while (!holders_of_output().empty()) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(look);
  }
  return true;
}

void end_all(int signal) {
  for (const pid_t process : holders_of_output()) kill(process, signal);
}

}  // namespace

std::vector<pid_t> holders_of_output() {
  const std::vector<struct stat> outputs = awaited_outputs();
  if (outputs.empty()) return {};
  Processes found = descendants(getpid());
  // Those that have lost their parents are nowhere below the launcher.
  if (const pid_t launcher = launcher_process(); launcher != 0) {
    const Processes of_job = descendants(launcher), above = ancestors();
    for (const pid_t process : descendants(1))
      if (!has(of_job, process) && !has(above, process) && !has(found, process))
        found.push_back(process);
  }
  std::erase_if(found, [&](pid_t process) {
    return is_daemon(process) || std::ranges::none_of(outputs, [&](const struct stat& file) {
             return holds(process, file);
           });
  });
  return found;
}

void end_holders_of_output(const std::string& who, std::chrono::seconds longest) {
  if (are_gone_by(Clock::now() + own_end)) return;
  const std::string line = fmt::format(
      "warning: {}: the program has ended, but processes that it started still hold its output, so "
      "that the launcher waits for them: {}; they are ended in {} s (TASUKI_END_SECONDS)\n",
      who, text_of(holders_of_output()), longest.count());
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::perror("stderr");
  if (are_gone_by(Clock::now() + longest)) return;
  end_all(SIGTERM);
  if (!are_gone_by(Clock::now() + after_term)) end_all(SIGKILL);
}

}  // namespace tasuki
