// Ends a process whose job does not get started: while MPI connects the ranks no watchdog can see
// them yet (watchdog.hpp).
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace tasuki {

// From its making, before MPI_Init, until the job has started and it goes. Should that take longer
// than the limits (set_stall_limits(); flags are not known that early) there is a warning, and an
// end with the exit code of ErrorKind::hang. One rank speaks for all: the launcher's variables tell
// which one it is.
class StartWatch {
 public:
  StartWatch();
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void run();

  double warning_, timeout_;  // seconds
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_started_ = false;
  std::thread thread_;
};

}  // namespace tasuki
