#include "job/launcher_end.hpp"
#include "core/process_state.hpp"
#include "job/launcher_process.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <span>
#include <vector>

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
  if (process == 0 || job == nullptr || !is_launcher_of_one_job(job)) return;
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

}  // namespace tasuki
