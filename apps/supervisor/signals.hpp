// The signals that tasuki-run answers, as events that are read one by one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

namespace tasuki::supervisor {

class Signals {
 public:
  // From now on SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD and SIGHUP (unless it is
  // ignored, as under nohup) wait to be read.
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Becomes readable when a signal has arrived.
  int descriptor() const { return descriptor_; }
  // The next one that has arrived; 0: none.
  int next() const;
  // Waits so long for a signal that asks for the end of the job (SIGINT, SIGTERM, SIGHUP or
  // SIGUSR1); nothing if none came.
  std::optional<int> wait_for_stop(std::chrono::milliseconds longest) const;

 private:
  int descriptor_;
};

// Whether a process has a handler for the signal.
bool catches(pid_t process, int signal);

// In a new process, before exec: signals are as they were before.
void forget_signals();

}  // namespace tasuki::supervisor
