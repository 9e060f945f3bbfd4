// JobGuard: what run_job gives a job, in parts, for programs that have MPI and a life of their own.
//
// Without a guard Tasuki ends no process, sets no signal handler, prints only warnings (on standard
// error) and starts no thread but those that compute or read ahead: errors are exceptions.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>

namespace tasuki {

struct JobIdentity;

// What a guard does. The ranks of a guard have the same parts.
struct JobParts {
  // A thread on each rank, which makes no MPI calls, ends the job if nothing moves, and says which
  // ranks keep the others waiting (set_stall_limits() in stall_limits.hpp). Nodes tell each other
  // what their ranks do in datagrams (heartbeats). The program's own work may report_progress()
  // (core/activity.hpp); work that does not has six times the limit.
  bool watchdog = true;
  // An exception that leaves JobGuard::run(), a thread or main, std::terminate and exit() are
  // printed as one line with rank, host and cause, and end the job with the error's exit code.
  bool errors = true;
  // SIGUSR1, and without a launcher or under Hydra also SIGINT and SIGTERM, ask a running Trainer
  // to save and stop (core/stop_request.hpp); SIGUSR2 prints a table of what all ranks do. Signals
  // that the program handles or ignores stay with it; the others are given back at the guard's end.
  bool signals = true;
};

// Ends the job: MPI_Abort on `comm`, which ends at least its ranks, and with most launchers all
// ranks of the program. Messages number ranks as in `comm`.
//
// A guard is for all that its process does; one may exist at a time. Give it the ranks that should
// end together, and all on which others of them wait: with a solver and a training on different
// ranks, MPI_COMM_WORLD.
class JobGuard {
 public:
  // Collective over `comm`, which is duplicated, after MPI_Init; MPI_THREAD_FUNNELED is enough.
  // Throws on all ranks if one of them has a guard already, or is inside run_job.
  explicit JobGuard(MPI_Comm comm, const JobParts& parts = {});
  // For run_job, which knows the job from before MPI_Init.
  JobGuard(const JobIdentity& identity, const JobParts& parts);
  // Threads, signal handlers and MPI's handles are as they were before. Not collective, but end the
  // guards of all ranks together (after a barrier, for example): other nodes take a rank without a
  // guard for lost once its whole node has sent no heartbeat for a while.
  ~JobGuard();
  JobGuard(const JobGuard&) = delete;
  JobGuard& operator=(const JobGuard&) = delete;

  // Calls `work` and returns its result. An exception ends the job (JobParts::errors; without that
  // part it is thrown on). If a training was stopped on request and saved (Stopped), rank 0 prints
  // one line and the result is 79. A forked child does not return from here.
  int run(const std::function<int()>& work) const;

 private:
  struct Members;
  std::unique_ptr<Members> members_;
};

}  // namespace tasuki
