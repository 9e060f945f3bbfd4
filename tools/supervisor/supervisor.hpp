// Supervisor: starts a job until it has ended well, or cannot.
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

// `mark`: what the program will write into its folder (run_folder.hpp).
class Supervisor {
 public:
  Supervisor(SupervisorSettings settings, Program program, Surroundings around,
             const std::string& mark, const Signals& signals);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // The command of the first start, as one would type it.
  std::string first_command() const;
  // The exit code: the job's, or 128 + a signal that was not answered by saving.
  int run();

 private:
  Launch next_launch() const;
  JobEnd start_once();
  void note_folder();
  // Says what is done about a signal, which is in the log, too.
  void say_stop(StopAction action, int signal);
  // Whether there is to be another start, which is prepared then.
  // If there must be none for another reason than how the job ended, that becomes its end.
  bool prepare_restart(JobEnd& end);
  // Says why, and waits; false: this was the last start, or a signal came.
  bool wait_before_restart(const JobEnd& end, bool has_progressed);
  // Whether what the job has saved can be found; says it if not.
  bool can_find_folder();
  // The launcher cannot start these ranks, and another time it could not either.
  bool is_refused(const JobEnd& end) const;
  // Whether nobody reads the job's output, so that nobody wants another start; says so.
  bool is_unread();
  // Until no process of the job writes to its folder: one may live on, on another host. After
  // --host-timeout that is an error, which becomes the job's end. False: that, or a signal came.
  bool wait_until_folder_is_free(JobEnd& end);
  // The flags that continue from what was saved, as words; empty if nothing was.
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
  std::optional<SavedState> saved_;              // there, at the last start; then at its end
  HostChoice hosts_;
  int starts_ = 0;
  bool have_ranks_run_ = false;  // in one of the starts
  bool has_spoken_ = false;      // since the job's last line
};

}  // namespace tasuki::supervisor
