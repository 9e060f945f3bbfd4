// JobGuard: the protections of run_job (watchdog, error reports, signal handlers), each of which
// can be left out. For programs that initialise MPI themselves and do other work besides training.
//
// Without a guard Tasuki ends no process and sets no signal handler, and errors are exceptions. Its
// messages go to standard error (configure_log() in core/log.hpp chooses which). It starts threads
// only to compute, to read ahead, to write files, to watch NCCL and, with MPI_THREAD_MULTIPLE, to
// exchange gradients.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>

namespace tasuki {

struct JobIdentity;

// What a guard does. Pass the same parts on all ranks.
struct JobParts {
  // A thread on each rank, which makes no MPI calls, ends the job if nothing moves, and says which
  // ranks keep the others waiting (set_stall_limits() in stall_limits.hpp). Nodes tell each other
  // what their ranks do in datagrams (heartbeats). The program's own code may call
  // report_progress() (core/activity.hpp); if it does not, its limit is six times as long.
  bool watchdog = true;
  // These end the job with the error's exit code, after one line with rank, host and cause: an
  // exception that leaves JobGuard::run(), main or a thread; std::terminate(); exit().
  bool errors = true;
  // SIGUSR1, and without a launcher or under Hydra also SIGINT and SIGTERM, ask a running Trainer
  // to save and stop (core/stop_request.hpp); SIGUSR2 prints a table of what all ranks do. Signals
  // that the program handles or ignores stay with it; the others are given back at the guard's end.
  bool signals = true;
};

// To end the job, a guard calls MPI_Abort on `comm`. This ends at least the ranks of `comm`, and
// with most launchers all ranks of the program. Messages number ranks as in `comm`.
//
// A guard covers everything that its process does, so a process can have only one at a time. `comm`
// must contain all ranks that should end together, and all ranks that these wait for. If a solver
// and a training run on different ranks, pass MPI_COMM_WORLD.
class JobGuard {
 public:
  // Collective over `comm`, which is duplicated, after MPI_Init; MPI_THREAD_FUNNELED is enough.
  // Throws on all ranks if one of them has a guard already, or is inside run_job.
  explicit JobGuard(MPI_Comm comm, const JobParts& parts = {});
  // For run_job, which knows the job from before MPI_Init.
  JobGuard(const JobIdentity& identity, const JobParts& parts);
  // Threads, signal handlers and MPI's handles are as they were before. Not collective
  // itself, but MPI may let MPI_Comm_free wait for the other ranks. Their watchdogs are told (in
  // datagrams to other nodes) and do not take this rank for lost, but end the job if nothing moves
  // for longer than the limit while they wait for this rank. A node whose first rank has no guard
  // any more learns nothing of other nodes.
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
