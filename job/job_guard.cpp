#include "job/job_guard.hpp"

#include <fmt/core.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <optional>

#include "core/environment.hpp"
#include "core/job_process.hpp"
#include "core/printable.hpp"
#include "core/stop_request.hpp"
#include "job/job_failure.hpp"
#include "job/launcher.hpp"
#include "job/signals.hpp"
#include "job/watchdog.hpp"

namespace tasuki {
namespace {

std::atomic<bool> exists = false;

// MPI_Abort names the communicator, and what reads mpirun's output knows the first one.
MPI_Comm as_world(const MpiComm& comm) {
  int relation = MPI_UNEQUAL;
  TASUKI_MPI(MPI_Comm_compare, comm.get(), MPI_COMM_WORLD, &relation);
  return relation == MPI_CONGRUENT ? MPI_COMM_WORLD : comm.get();
}

JobIdentity identity_of_guest(const MpiComm& comm) {
  int world_size = 0;
  TASUKI_MPI(MPI_Comm_size, MPI_COMM_WORLD, &world_size);
  return {.rank = comm.rank(),
          .host = host_name(),
          .is_alone = world_size == 1 && !launched_ranks().has_value(),
          .comm = as_world(comm)};
}

MpiComm duplicate_of_running(MPI_Comm comm) {
  if (!is_mpi_running() || comm == MPI_COMM_NULL)
    fail(ErrorKind::usage,
         "a JobGuard lives between MPI_Init and MPI_Finalize and needs a communicator{}",
         comm == MPI_COMM_NULL ? "; found MPI_COMM_NULL" : "");
  return MpiComm::duplicate(comm);
}

// Marks that this process has a guard.
class OnlyOne {
 public:
  explicit OnlyOne(const MpiComm& comm) {
    is_first_ = !exists.exchange(true);
    int everywhere = is_first_ ? 1 : 0;
    TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, &everywhere, 1, MPI_INT, MPI_MIN, comm.get());
    if (everywhere != 0) return;
    release();
    throw Error(ErrorKind::usage,
                "a second JobGuard (or run_job inside of one): a process can have one at a time; "
                "give it a communicator with all ranks that should end together",
                scope_of_shared_error(comm.get()));
  }
  ~OnlyOne() { release(); }
  OnlyOne(const OnlyOne&) = delete;
  OnlyOne& operator=(const OnlyOne&) = delete;

 private:
  void release() const {
    if (is_first_) exists = false;
  }
  bool is_first_ = false;
};

struct JobProcess {
  JobProcess() { begin_job_process(); }
  ~JobProcess() { end_job_process(); }
  JobProcess(const JobProcess&) = delete;
  JobProcess& operator=(const JobProcess&) = delete;
};

}  // namespace

struct JobGuard::Members {
  Members(MpiComm ranks, const JobIdentity& identity, const JobParts& given)
      : comm(std::move(ranks)), only_one(comm), parts(given) {
    set_job_identity(identity);
    if (parts.signals) {
      signals.emplace();
      listen_for_stops(!identity.is_alone);
      listen_for_table_requests();
    }
    if (parts.errors) handlers.emplace();
    if (parts.watchdog) watchdog.emplace(comm);
  }

  MpiComm comm;
  OnlyOne only_one;
  JobParts parts;
  JobProcess process;
  std::optional<SignalScope> signals;
  std::optional<EndHandlers> handlers;
  std::optional<Watchdog> watchdog;
};

JobGuard::JobGuard(MPI_Comm comm, const JobParts& parts) {
  MpiComm own = duplicate_of_running(comm);
  const JobIdentity identity = identity_of_guest(own);
  members_ = std::make_unique<Members>(std::move(own), identity, parts);
}

// Refers to the job's communicator, because run_job calls MPI_Finalize within the guard: a
// duplicate could not be freed any more.
JobGuard::JobGuard(const JobIdentity& identity, const JobParts& parts)
    : members_(std::make_unique<Members>(MpiComm::refer_to(identity.comm), identity, parts)) {}

JobGuard::~JobGuard() = default;

int JobGuard::run(const std::function<int()>& work) const {
  try {
    const int exit_code = work();
    if (!is_job_process()) end_child(exit_code);
    return exit_code;
  } catch (const Stopped& stopped) {
    std::fflush(stdout);
    if (job_identity().rank == 0) fmt::print(stderr, "{}\n", message_line(stopped.what()));
    return stopped.exit_code();
  } catch (...) {
    if (!is_job_process()) end_child(describe(std::current_exception()));
    if (!members_->parts.errors) throw;
    end_job(describe(std::current_exception()));
  }
}

}  // namespace tasuki
