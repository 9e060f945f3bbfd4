// Ends what would outlive a job: its launcher, and processes that user code has left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace tasuki {

// To be called right before MPI_Abort, or before this process exits instead. When mpirun ends a job
// it waits without limit for hosts that it cannot reach, and so does its daemon on a host that is
// cut off. This function starts a small process that gives the launcher of this host
// (launcher_process()) 5 s to end. It then kills the launcher (a daemon with SIGTERM first, then
// with SIGKILL), and finally the processes that the launcher has left on this host. Does nothing if
// there is no such launcher (Slurm's notices lost hosts itself), or if the launcher outlives this
// job (is_launcher_of_one_job).
void ensure_launcher_ends();

// Processes started by this one, directly or not, that hold its standard output or standard error
// open. A launcher waits for them even when this process has ended. A process that has lost its
// parent is recognised by having left the launcher's tree.
std::vector<pid_t> holders_of_output();

// Waits for these processes to end. Names those that are there after a second, in one line that
// begins "warning: `who`: ", and ends them `longest` after that.
void end_holders_of_output(const std::string& who, std::chrono::seconds longest);

}  // namespace tasuki
