// What a signal to tasuki-run means for the job.
#pragma once

#include <chrono>
#include <set>

#include "tools/supervisor/signals.hpp"

namespace tasuki::supervisor {

enum class StopAction {
  none,
  save_and_stop,  // the launcher gets SIGUSR1, which reaches all ranks
  end_at_once,    // the launcher gets SIGTERM
  pass_on         // the launcher gets the same signal
};

// A training saves and stops on SIGINT, SIGTERM, SIGHUP and SIGUSR1, whichever comes first; the
// others then mean the same request. The second SIGINT, or the second SIGTERM, ends it at once.
// SIGUSR2 is passed on; for programs other than Tasuki's, all signals are.
//
// SIGPIPE stands for a standard output that has lost its reader (`tasuki-run ... | head -1`),
// because SIGPIPE ends other programs in that case. It leaves a training 3 seconds to save, and
// other programs none.
class StopRequest {
 public:
  explicit StopRequest(bool is_training) : is_training_(is_training) {}

  StopAction on_signal(int signal);

  // Waits this long; false if a signal asked for the end of the job meanwhile, which becomes the
  // request.
  bool wait(const Signals& signals, std::chrono::milliseconds time);

  // The first signal that asked for the end of the job; 0: none.
  int signal() const { return signal_; }
  bool is_made() const { return signal_ != 0; }

  // The exit code of tasuki-run after a job that was asked to stop ended with `exit_code`: the same
  // if it says how the training ended (0, 79, or an error of Tasuki's), otherwise 128 + the signal,
  // which was not answered. Other programs answer signals, except SIGPIPE, in their own way.
  int exit_code(int exit_code) const;

  // Seconds that the job has to save, if the user allows `stop_timeout`.
  double time_to_save(double stop_timeout) const;

 private:
  bool is_training_;
  int signal_ = 0;
  std::set<int> met_;
};

}  // namespace tasuki::supervisor
