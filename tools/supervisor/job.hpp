// One start of the ranks, from the launcher's first moment to the end of its last process here.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tools/supervisor/launch.hpp"
#include "tools/supervisor/launcher_text.hpp"
#include "tools/supervisor/signals.hpp"
#include "tools/supervisor/stop_request.hpp"

namespace tasuki::supervisor {

struct JobEnd {
  int exit_code = 0;           // 128 + signal when a signal ended the launcher
  std::optional<Cause> cause;  // of a failure, as far as standard error told
  bool is_cause_last = false;  // that line was the last one shown
  StartFailure start_failure = StartFailure::none;
  bool is_clean = true;  // no process of the job is left on this machine
};

struct JobWatch {
  // Called about once a second.
  std::function<void()> meanwhile;
  // Whether a rank of this start is known to have run.
  std::function<bool()> have_ranks_run;
  // Called when a signal asks the job to stop (first: what is done about it). `signal` 0: the job
  // has not stopped in time.
  std::function<void(StopAction action, int signal)> on_stop;
};

// Runs the launcher in a process group of its own, so that the terminal's Ctrl-C reaches this
// process alone, and passes its standard error on (launcher_text.hpp). Signals become requests as
// StopRequest says, and so does a standard output that nobody reads any more; a training that does
// not answer one in time (StopRequest::time_to_save of `stop_timeout` seconds) is ended, and a
// launcher that does not end within 5 seconds is killed, or at the next such request. SIGTSTP
// (Ctrl-Z) stops the ranks and this process until SIGCONT. When the call returns, no process of the
// job is left on this machine. If this process is killed, the launcher gets SIGTERM.
JobEnd run_job_once(const Launch& launch, bool leave_out_launchers_text, double stop_timeout,
                    const Signals& signals, StopRequest& stop, const JobWatch& watch);

}  // namespace tasuki::supervisor
