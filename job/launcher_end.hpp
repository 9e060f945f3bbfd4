// Makes sure that the launcher of a failed job ends.
#pragma once

namespace tasuki {

// To be called right before MPI_Abort, or before this process exits instead. When mpirun ends a job
// it waits without limit for hosts that it cannot reach, and so does its daemon on a host that is
// cut off. This function starts a small process that gives the launcher of this host
// (launcher_process()) 5 s to end. It then kills the launcher (a daemon with SIGTERM first, then
// with SIGKILL), and finally the processes that the launcher has left on this host. Does nothing if
// there is no such launcher (Slurm's notices lost hosts itself), or if the launcher outlives this
// job (is_launcher_of_one_job).
void ensure_launcher_ends();

}  // namespace tasuki
