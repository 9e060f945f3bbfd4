// Ends a process whose job does not get started: while MPI connects the ranks no watchdog can see
// them yet (watchdog.hpp).
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "tasuki/job/lost_connection.hpp"

namespace tasuki {

// From its making, before MPI_Init, until the job has started and it goes. Should that take longer
// than the limits there is a warning, and an end with the exit code of ErrorKind::hang. One rank
// speaks for all: the launcher's variables tell which one it is.
//
// The limits are those of set_stall_limits() unless --stall-warning or --stall-timeout is among the
// arguments; what is no number there is somebody else's to refuse. Seconds in which the process
// itself was stopped do not count.
//
// A host that is lost meanwhile ends the process as well: one that has not answered for as long as
// the limit for silence (--silence-timeout; 0: never, nor with a timeout of 0) what this process or
// its launcher has sent to it (lost_connection.hpp). The first rank of each host speaks.
class StartWatch {
 public:
  StartWatch(int argc, const char* const* argv);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void run();
  // Whether the job starts before the watch has seen so many seconds.
  bool starts_within(double seconds, std::unique_lock<std::mutex>& lock);
  void end_if_host_is_lost(double seconds, std::unique_lock<std::mutex>& lock);

  double warning_, timeout_, silence_;  // seconds
  ConnectionWatch connections_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_started_ = false;
  double seen_ = 0;  // seconds
  std::thread thread_;
};

}  // namespace tasuki
