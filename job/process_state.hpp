// What the system tells about processes of this machine, as far as the end of a job depends on it.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tasuki {

struct ProcessState {
  std::array<char, 16> name{};  // zero-terminated
  char state = '?';             // as shown by ps; T: stopped
  pid_t parent = 0;
  pid_t tracer = 0;         // an attached debugger; 0: none
  std::int64_t memory = 0;  // resident bytes

  bool is_stopped() const { return state == 'T'; }
};

// Empty if there is no such process. Allocates nothing.
std::optional<ProcessState> process_state(pid_t process);

// The same from the text of /proc/PID/status.
ProcessState parse_process_status(std::string_view text);

// Whether a process of this name is Open MPI's daemon; the second, the daemon or mpirun (by any of
// its names).
bool is_daemon_name(std::string_view name);
bool is_launcher_name(std::string_view name);

// Whether the launcher of a job with this name (PMIX_NAMESPACE) ends with the job. Open MPI 4's
// names are numbers. PRRTE's begin with the program that the daemons belong to:
// "prterun-HOST-PID@1" for mpirun's own, "prte-HOST-PID@7" for those of a virtual machine, which
// other jobs share. Open MPI 3's virtual machine cannot be distinguished from mpirun.
bool is_launcher_of_one_job(std::string_view job);

// The mpirun or daemon that started this process, directly or through a script; 0: none.
pid_t launcher_process();

// All processes that descend from `ancestor`.
std::vector<pid_t> descendants(pid_t ancestor);

}  // namespace tasuki
