#include "tools/supervisor/signals.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace tasuki::supervisor {
namespace {

sigset_t answered_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD}) sigaddset(&set, signal);
  for (const int signal : {SIGHUP, SIGINT, SIGTSTP})
    if (struct sigaction present{};
        sigaction(signal, nullptr, &present) == 0 && present.sa_handler != SIG_IGN)
      sigaddset(&set, signal);
  return set;
}

}  // namespace

Signals::Signals() {
  const sigset_t set = answered_signals();
  if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0)
    fail(ErrorKind::io, "sigprocmask: {}", std::strerror(errno));
  descriptor_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ < 0) fail(ErrorKind::io, "signalfd: {}", std::strerror(errno));
  // A missing reader makes the write fail.
  ::signal(SIGPIPE, SIG_IGN);
}

Signals::~Signals() {
  close(descriptor_);
}

int Signals::next() const {
  signalfd_siginfo info{};
  return read(descriptor_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                              : 0;
}

std::optional<int> Signals::wait_for_stop(std::chrono::milliseconds longest) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + longest;
  for (;;) {
    while (const int signal = next()) {
      if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGUSR1)
        return signal;
      if (signal == SIGTSTP) raise(SIGSTOP);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    pollfd arrival{descriptor_, POLLIN, 0};
    poll(&arrival, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000)));
  }
}

}  // namespace tasuki::supervisor
