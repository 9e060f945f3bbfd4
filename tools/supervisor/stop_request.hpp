// What signals to tasuki-run mean for the job.
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
// SIGUSR2 is passed on; of other programs than Tasuki's all signals are.
//
// SIGPIPE stands for a standard output that nobody reads any more (`tasuki-run ... | head -1`), as
// it ends other programs. It leaves a training 3 seconds to save, and others none.
class StopRequest {
 public:
  explicit StopRequest(bool is_training) : is_training_(is_training) {}

  StopAction on_signal(int signal);

  // Lets this time pass; false if a signal asked for the end of the job meanwhile, which it takes
  // up.
  bool wait(const Signals& signals, std::chrono::milliseconds time);

  // The first signal that asked for the end of the job; 0: none.
  int signal() const { return signal_; }
  bool is_made() const { return signal_ != 0; }

  // What tasuki-run ends with where the job, asked to stop, ended with `exit_code`: that one if it
  // says how the training ended (0, 79, or an error of Tasuki's), else 128 + the signal, which was
  // not answered. Other programs answer signals in their own way, but for SIGPIPE.
  int exit_code(int exit_code) const;

  // Seconds that the job may take to save, where the user allows `stop_timeout`.
  double time_to_save(double stop_timeout) const;

 private:
  bool is_training_;
  int signal_ = 0;
  std::set<int> met_;
};

}  // namespace tasuki::supervisor
