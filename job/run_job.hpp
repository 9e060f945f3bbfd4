// MPI's lifetime and the end of a job: every program's main is one call of run_job.
#pragma once

#include <functional>

namespace tasuki {

// Initialises MPI (with errors returned, the highest thread level offered, and ranks that yield
// while they wait, so that more ranks than cores make progress), runs `job` and finalizes.
//
// An exception on any rank is printed as one line with rank, host and cause, and ends the whole job
// (MPI_Abort) with the error's exit code: ranks waiting in a collective are ended too. The same
// goes for std::terminate and for exit() in the middle of the job. An error that every rank meets
// alike (ErrorScope::every_rank) is printed by rank 0 alone; should rank 0 not have met it, the
// others speak a second later. Returns job's value, the exit code.
//
// A job in which no rank fails but nothing moves any more, because one is stuck, is ended by a
// watchdog (watchdog.hpp).
//
// A rank that returns waits for the others. After a value other than 0 it does so for 2 s and then
// ends the job with one line and this value: others that wait for it would do so forever. After 0
// it waits for 10 minutes (environment variable TASUKI_END_SECONDS), as others may still have work
// of their own, say writing files; that the job then ends has the exit code of ErrorKind::hang.
//
// A training that is asked to stop (stop_signals.hpp) saves, and all ranks return 79
// (Stopped::exit_kind) after one line of rank 0.
//
// Signals: under Open MPI's mpirun SIGCONT and SIGTERM are handled (launcher.hpp), unless the
// program handles them already. A handler of the program's own must be installed with SA_ONSTACK:
// while oneDNN multiplies matrices the stack pointer may be inside the heap
// (core/alternate_stack.hpp). Threads that compute have an alternate stack for it.
int run_job(int argc, char** argv, const std::function<int(int argc, char** argv)>& job);

}  // namespace tasuki
