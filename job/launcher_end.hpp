// Sees to it that the launcher of a job that has failed ends.
#pragma once

namespace tasuki {

// To be called right before MPI_Abort, or before this process ends in its place. mpirun that is
// told to end a job waits without a limit for hosts that it no longer reaches, and so does its
// daemon on a host that was cut off. This leaves behind a small process that gives the launcher of
// this host (launcher_process()) 5 s to end, then ends it (a daemon with SIGTERM first, then with
// SIGKILL), and at last what it has started here and is still there. Where there is no such
// launcher nothing happens: Slurm's, say, knows of lost hosts and is not ours to end. Nor is one
// that outlives this job (is_launcher_of_one_job).
void ensure_launcher_ends();

}  // namespace tasuki
