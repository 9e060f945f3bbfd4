#include "tools/processes/start_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace tasuki::processes {
namespace {

// Runs in the new process; makes only calls that are safe after fork.
[[noreturn]] void become(char* const* arguments, const char* name, const Streams& streams,
                         int at_our_end, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, at_our_end);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  // It runs in the background, and may write to a terminal with `stty tostop`.
  signal(SIGTTOU, SIG_IGN);
  dup2(streams.in, STDIN_FILENO);
  dup2(streams.out, STDOUT_FILENO);
  dup2(streams.err, STDERR_FILENO);
  execvp(arguments[0], arguments);
  dprintf(STDERR_FILENO, "error: %s cannot be started: %s\n", name, std::strerror(errno));
  _exit(127);
}

}  // namespace

pid_t start_process(const std::vector<std::string>& words, const Streams& streams, int at_our_end) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::string name = printable(words.front());
  const pid_t parent = getpid(), child = fork();
  if (child < 0) fail(ErrorKind::io, "fork: {}", std::strerror(errno));
  if (child == 0) become(arguments.data(), name.c_str(), streams, at_our_end, parent);
  setpgid(child, child);  // in both processes, because either may come first
  return child;
}

int open_nothing() {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) fail(ErrorKind::io, "/dev/null cannot be opened: {}", std::strerror(errno));
  return nothing;
}

int exit_code_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::optional<int> reap(pid_t child) {
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == child) return status;
    if (ended <= 0) return std::nullopt;
  }
}

}  // namespace tasuki::processes
