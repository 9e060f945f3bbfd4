// The signals that tasuki-run handles, as events that are read one by one.
#pragma once

#include <chrono>
#include <optional>

namespace tasuki::supervisor {

class Signals {
 public:
  // From now on SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH and SIGCHLD wait to be read; so do SIGHUP,
  // SIGINT and SIGTSTP unless they are ignored, as under nohup or in the background of a script.
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Becomes readable when a signal has arrived.
  int descriptor() const { return descriptor_; }
  // The next signal that has arrived; 0: none.
  int next() const;
  // Waits this long for a signal that asks for the end of the job (SIGINT, SIGTERM, SIGHUP or
  // SIGUSR1); nothing if none came. SIGTSTP stops this process meanwhile.
  std::optional<int> wait_for_stop(std::chrono::milliseconds longest) const;

 private:
  int descriptor_;
};

}  // namespace tasuki::supervisor
