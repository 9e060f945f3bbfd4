// run_job: initialises and finalises MPI and ends failed jobs. The main function of every program
// whose only purpose is training calls it, directly or through TrainingProgram::run(); a program
// that also does other work has a JobGuard (job_guard.hpp), or neither.
#pragma once

#include <functional>

namespace tasuki {

// Initialises MPI, calls `job`, finalises MPI, and returns the exit code that `job` returned. MPI
// is initialised with the highest thread level that it offers. Open MPI is told to yield the core
// while it waits, unless the user has set this, so that a job with more ranks than cores makes
// progress. MPI returns errors instead of aborting. If the caller has initialised MPI, it stays
// initialised with the caller's settings, and the caller may call this several times; only the
// error handlers of MPI_COMM_WORLD and MPI_COMM_SELF are replaced until this returns. Otherwise a
// second call is an error, because MPI starts only once.
//
// Refuses launchers of another MPI, under which each process would be a job of one rank
// (launcher.hpp).
//
// Exceptions: an exception on any rank is printed as one line with rank, host and cause, and ends
// the whole job (MPI_Abort) with the error's exit code, including ranks that wait in a collective.
// std::terminate and exit() in the middle of the job are reported and end the job in the same way.
// An error that every rank throws (ErrorScope::every_rank) is printed by rank 0 alone, or 3 s later
// by the others if rank 0 did not print it.
//
// Stalls: a watchdog (watchdog.hpp) ends a job that makes no progress while a rank waits for
// another or for its GPU, or is in library code. A job whose ranks are all in user code goes on.
//
// End of the job: a rank whose `job` has returned waits for the others. After 0 or 79
// (ErrorKind::stopped) it waits for 10 minutes (environment variable TASUKI_END_SECONDS), because
// the others may still have work to do, for example on files. After any other value it waits for
// 2 s, because the others may be waiting for it. If they have not returned by then, it prints one
// line and ends the job with its own value, or with ErrorKind::hang if that value was 0.
//
// Other processes: children that user code forks do not act for the job. One that calls exit(),
// throws an exception or returns from `job` ends alone; an exception that would leave Trainer::run
// is printed there, because the child lacks the threads that the trainer's destructors wait for. If
// children still hold the output open when the job has ended, mpirun would wait for them, so a
// warning lists them after a second, and they are killed after TASUKI_END_SECONDS.
//
// Stopping: a training run that is asked to stop (signals.hpp) saves its state, rank 0 prints
// one line, and all ranks return 79 (ErrorKind::stopped).
//
// SIGUSR2: prints a table of what all ranks are doing, and the job goes on (signals.hpp).
//
// Signals: under Open MPI's mpirun, SIGCONT and SIGTERM are handled (signals.hpp) unless the
// program handles them already. Handlers that `job` installs need SA_ONSTACK, because the stack
// pointer may be in the heap while oneDNN multiplies matrices (core/alternate_stack.hpp); threads
// that compute have an alternate stack. If run_job calls MPI_Init, handlers that exist after it get
// the flag.
int run_job(int argc, char** argv, const std::function<int(int argc, char** argv)>& job);

}  // namespace tasuki
