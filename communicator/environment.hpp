// MPI's lifetime and the end of a job: every program's main is one call of run_job.
#pragma once

#include <functional>
#include <string>

namespace tasuki {

// Initialises MPI (with errors returned, the highest thread level offered, and ranks that yield
// while they wait, so that more ranks than cores make progress), runs `job` and finalizes.
//
// An exception on any rank is printed as one line with rank, host and cause, and ends the whole job
// (MPI_Abort) with the error's exit code: ranks waiting in a collective are ended too. The same
// goes for std::terminate and for exit() in the middle of the job. An error that every rank meets
// alike (ErrorScope::every_rank) is printed by rank 0 alone. Returns job's value, the exit code.
int run_job(int argc, char** argv, const std::function<int(int argc, char** argv)>& job);

// Name of this machine.
std::string host_name();

}  // namespace tasuki
