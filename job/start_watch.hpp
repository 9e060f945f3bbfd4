// StartWatch: ends a process whose job does not start. The watchdog (watchdog.hpp) cannot see ranks
// while MPI is still connecting them.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "job/lost_connection.hpp"

namespace tasuki {

// Exists from before MPI_Init until the job has started. If that takes longer than the limits, it
// warns, and then ends the process with the exit code of ErrorKind::hang. One rank prints for all,
// chosen by the launcher's environment variables.
//
// The limits are --stall-warning and --stall-timeout if these are among the arguments, else what
// set_stall_limits() has set. Values that are not numbers are ignored here; the program refuses
// them later. Time in which the process itself was stopped does not count.
//
// A host that is lost meanwhile ends the process as well: a host that has not acknowledged data
// from this process or its launcher (lost_connection.hpp) for --silence-timeout seconds (0, or a
// stall timeout of 0: never). The first rank of each host prints.
class StartWatch {
 public:
  StartWatch(int argc, const char* const* argv);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void run();
  // Waits until the job has started or this watch has seen `seconds`; returns whether it started.
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
