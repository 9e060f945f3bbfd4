// The process that started this rank: Open MPI's mpirun, or its daemon on another host.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace tasuki {

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

}  // namespace tasuki
