// How a job ends before its time: one line of the rank that failed, then the end of all ranks.
#pragma once

#include <exception>
#include <string>

#include "communicator/mpi/mpi.hpp"
#include "core/error.hpp"

namespace tasuki {

struct Failure {
  std::string cause;  // nothing in it controls a terminal
  int exit_code;
  ErrorScope scope;
};

// The error of kind internal for exceptions that are not Tasuki's own.
Failure describe(const std::exception_ptr& exception);

// What messages call this process, and whom it ends when it fails. Before the first call: rank 0 of
// no host, which ends alone.
struct JobIdentity {
  int rank = 0;
  std::string host{};
  bool is_alone = true;  // started without a launcher: the job is this process
  MPI_Comm comm = MPI_COMM_NULL;
};
// The calling thread becomes the one that may finalize MPI.
void set_job_identity(const JobIdentity& identity);
const JobIdentity& job_identity();

// Whether this process is between MPI_Init and MPI_Finalize.
bool is_mpi_running();

// Ends all ranks. Only the first failure of a process is printed, in one write, so that the lines
// of several ranks do not mix. An error that every rank meets is printed by rank 0, or 3 s later by
// the others. May be called in any thread.
[[noreturn]] void end_job(const Failure& failure);

// A forked child ends alone, without destructors of objects that are its parent's.
[[noreturn]] void end_child(int exit_code);
[[noreturn]] void end_child(const Failure& failure);

// While it exists, std::terminate (an exception left a thread, a noexcept function or main) and
// exit() are reported and end the job.
class EndHandlers {
 public:
  EndHandlers();
  ~EndHandlers();
  EndHandlers(const EndHandlers&) = delete;
  EndHandlers& operator=(const EndHandlers&) = delete;
};

}  // namespace tasuki
