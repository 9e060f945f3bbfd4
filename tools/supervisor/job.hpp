// One start of the ranks, until the launcher's last process on this machine has ended.
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
  std::optional<Cause> cause;  // of a failure, if standard error named it
  bool is_cause_last = false;  // that line was the last one shown
  StartFailure start_failure = StartFailure::none;
  bool has_lost_host = false;  // exit_code may be 0 (LauncherText)
  bool is_stuck = false;       // the launcher was killed, because it did not end after its ranks
  bool is_clean = true;        // no process of the job remains on this machine
};

struct JobWatch {
  // Called about once a second.
  std::function<void()> meanwhile;
  // Whether a rank of this start is known to have run.
  std::function<bool()> have_ranks_run;
  // Called when a signal asks the job to stop, with what is done about it. `signal` 0: the job has
  // not stopped in time.
  std::function<void(StopAction action, int signal)> on_stop;
};

// Runs the launcher in a process group of its own, so that the terminal's Ctrl-C reaches this
// process alone, and passes on its standard error (launcher_text.hpp), and Hydra's standard output
// to a pipe or socket (Launch::passes_output). StopRequest turns signals,
// and a standard output without a reader, into requests. A training that does not answer a request
// in time (StopRequest::time_to_save of `stop_timeout` seconds) is ended; a launcher that does not
// end within 5 seconds, or by the next such request, is killed, and so is one that is stuck
// (stuck_launcher.hpp). SIGTSTP (Ctrl-Z) stops the ranks and this process until SIGCONT. When the
// call returns, no process of the job remains on this machine. If this process is killed, the
// launcher gets SIGTERM.
JobEnd run_job_once(const Launch& launch, bool leave_out_launchers_text, double stop_timeout,
                    const Signals& signals, StopRequest& stop, const JobWatch& watch);

}  // namespace tasuki::supervisor
