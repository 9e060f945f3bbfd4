// What signals to tasuki-run mean for the job.
#pragma once

#include <set>

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
class StopRequest {
 public:
  explicit StopRequest(bool is_training) : is_training_(is_training) {}

  StopAction on_signal(int signal);

  // The first signal that asked for the end of the job; 0: none.
  int signal() const { return signal_; }
  bool is_made() const { return signal_ != 0; }

 private:
  bool is_training_;
  int signal_ = 0;
  std::set<int> met_;
};

// The exit code of a job that was asked to stop: its own if that says how it ended (0, 79, or an
// error of Tasuki's), else 128 + the signal, which was not answered.
int exit_code_when_stopped(int signal, int exit_code);

}  // namespace tasuki::supervisor
