// Supervisor: starts a job again until it succeeds or cannot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/supervisor/host_choice.hpp"
#include "tools/supervisor/incidents.hpp"
#include "tools/supervisor/job.hpp"
#include "tools/supervisor/program.hpp"
#include "tools/supervisor/restart.hpp"
#include "tools/supervisor/run_folder.hpp"

namespace tasuki::supervisor {

// `mark`: the text that the program will write into its folder (run_folder.hpp).
class Supervisor {
 public:
  Supervisor(SupervisorSettings settings, Program program, Surroundings around,
             const std::string& mark, const Signals& signals);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // The command of the first start, as a user would type it.
  std::string first_command() const;
  // The exit code: the job's, or 128 + a signal that the job did not answer by saving.
  int run();

 private:
  Launch next_launch() const;
  JobEnd start_once();
  void note_folder();
  // Reports, also in the log, what is done about a signal.
  void say_stop(StopAction action, int signal);
  // Whether to start again; if so, prepares the start. If something other than the job's end
  // forbids another start, that becomes the job's end.
  bool prepare_restart(JobEnd& end);
  // Reports the reason, and waits; false: this was the last start, or a signal came.
  bool wait_before_restart(const JobEnd& end, bool has_progressed);
  // Whether the job's saved state can be found; reports it if not.
  bool can_find_folder();
  // The launcher cannot start these ranks, and another start would fail in the same way.
  bool is_refused(const JobEnd& end) const;
  // Whether nobody reads the job's output any more, so that nobody wants another start; reports it.
  bool is_unread();
  // Waits until no process of the job writes to its folder: one may still run on another host.
  // After --host-timeout this is an error, which becomes the job's end. False: this error, or a
  // signal came.
  bool wait_until_folder_is_free(JobEnd& end);
  // The flags that resume from the saved state, as words; empty if nothing was saved.
  std::string way_to_go_on() const;
  void say_end(const JobEnd& end, int exit_code);

  SupervisorSettings settings_;
  Program program_;
  Surroundings around_;
  const Signals& signals_;
  StopRequest stop_;
  Restarts restarts_;
  Incidents incidents_;
  RunFolder run_folder_;
  std::optional<std::filesystem::path> folder_;  // the job's, once it is known
  std::optional<SavedState> saved_;              // in the folder, at the last start; then at its
                                                 // end
  HostChoice hosts_;
  int starts_ = 0;
  bool have_ranks_run_ = false;  // in any start
  bool has_spoken_ = false;      // since the job's last line
};

}  // namespace tasuki::supervisor
