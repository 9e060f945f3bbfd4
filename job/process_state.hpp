// What the system says of the processes of this machine, as far as the end of a job needs it.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace tasuki {

struct ProcessState {
  std::array<char, 16> name{};  // ends in a zero
  char state = '?';             // as ps shows it; T: stopped
  pid_t parent = 0;
  pid_t tracer = 0;  // a debugger that holds it; 0: none

  bool is_stopped() const { return state == 'T'; }
};

// Allocates nothing. Empty: no such process.
std::optional<ProcessState> process_state(pid_t process);

// The same from the text of /proc/PID/status.
ProcessState parse_process_status(std::string_view text);

// Whether a process of this name is Open MPI's daemon; or that or mpirun, whichever of its names it
// was called by.
bool is_daemon_name(std::string_view name);
bool is_launcher_name(std::string_view name);

// Whether the launcher of a job with this name (PMIX_NAMESPACE) ends with the job. Open MPI 4's are
// numbers; PRRTE's begin with the program that the job's daemons belong to, "prterun-HOST-PID@1"
// for mpirun's own, "prte-HOST-PID@7" for those of a virtual machine, which other jobs use, too.
// Open MPI 3's virtual machine cannot be told from mpirun.
bool is_launcher_of_one_job(std::string_view job);

// mpirun or the daemon that started this process, be it through a script; 0: there is none.
pid_t launcher_process();

// All processes that descend from this one.
std::vector<pid_t> descendants(pid_t ancestor);

}  // namespace tasuki
