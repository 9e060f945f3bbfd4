// Signals that a rank answers: the launcher's, which end the job; requests to stop; and requests
// for a table of what all ranks are doing.
//
// Each function leaves signals alone that the program handles or ignores already, but replaces
// handlers of MPI's library: MPICH has one for SIGUSR1, which hides a handler that the program has
// set before MPI_Init.
#pragma once

#include <string_view>

namespace tasuki {

// Installs handlers for the launcher's SIGCONT and SIGTERM, so that a job that failed on one host
// ends on all hosts at once (signals.cpp says how). SIGTERM still ends the process, after its last
// words (core/stop_request.hpp). Does nothing in processes that Open MPI's mpirun did not start.
void answer_launcher();

// The beginning of a rank's last words if the launcher ends it.
inline constexpr std::string_view how_jobs_end = "the job was ended";

// Makes SIGUSR1, and without a launcher also SIGINT and SIGTERM, ask a running training to save and
// stop (core/stop_request.hpp). So do SIGINT and SIGTERM under Hydra, which passes them on to the
// ranks and lets them end in their own time; Open MPI's mpirun kills the ranks. If no training
// runs, and on the second SIGINT or SIGTERM, the process ends as by default, after its last words.
// SIGUSR1 after a training is ignored, so that a repeated signal does not end a process that has
// saved.
void listen_for_stops(bool was_launched);

// Makes SIGUSR2 a request to the watchdog for a table, instead of the end of this process. The
// handler only sets a flag and wakes the watchdog, so the table is printed whatever the process is
// stuck in. A request before there is a watchdog waits for it.
void listen_for_table_requests();

// For after MPI_Init: MPICH and Intel MPI have wrapped the handler of SIGUSR1 in one that takes the
// signal for news of a dead process. They then ask for its number, and where Slurm started the
// ranks, Intel MPI's calls fail from then on.
void take_signals_back_from_mpi();

// RAII: gives signals back that the functions above have taken since the constructor, with the
// handlers that they had, unless the program has set another handler since.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
};

// A file descriptor that is readable while a request for a table waits; -1 until
// listen_for_table_requests().
int table_request_wake();

// Whether there were requests for a table since the last call.
bool take_table_requests();

}  // namespace tasuki
