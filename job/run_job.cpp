#include "job/run_job.hpp"

#include <fmt/core.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "communicator/mpi/mpi.hpp"
#include "communicator/mpi/open_mpi.hpp"
#include "core/activity.hpp"
#include "core/alternate_stack.hpp"
#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/job_process.hpp"
#include "core/log.hpp"
#include "core/polite_wait.hpp"
#include "job/job_end.hpp"
#include "job/job_failure.hpp"
#include "job/job_guard.hpp"
#include "job/launcher.hpp"
#include "job/mpi_settings.hpp"
#include "job/session_folder.hpp"
#include "job/signals.hpp"
#include "job/start_watch.hpp"

namespace tasuki {
namespace {

// MPI was initialised before run_job(), by a program that also finalises it.
bool is_mpi_of_caller = false;

// How long a rank that returned 0 waits for the others to return. By default they have time to
// finish other work.
std::chrono::seconds wait_after_success() {
  constexpr const char* variable = "TASUKI_END_SECONDS";
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::chrono::minutes(10);
  const char* const end = text + std::strlen(text);
  int seconds = 0;
  const auto [rest, error] = std::from_chars(text, end, seconds);
  if (error != std::errc() || rest != end || seconds < 1)
    fail_everywhere(ErrorKind::usage, "{}={}; expected a number of seconds from 1", variable, text);
  return std::chrono::seconds(seconds);
}

// Waits for the other ranks before MPI_Finalize, which would wait without a limit.
void leave_together(int exit_code, std::chrono::seconds after_success) {
  const WaitScope waiting_for_others(Waiting::program_end);
  // The others may wait for this rank forever.
  constexpr std::chrono::seconds after_failure{2};
  const bool is_success = exit_code == 0 || exit_code == static_cast<int>(ErrorKind::stopped);
  const std::chrono::seconds longest = is_success ? after_success : after_failure;
  const auto start = std::chrono::steady_clock::now();
  MPI_Request request = MPI_REQUEST_NULL;
  TASUKI_MPI(MPI_Ibarrier, MPI_COMM_WORLD, &request);
  int all_are_here = 0;
  for (PoliteWait waiting;; waiting.pause()) {
    TASUKI_MPI(MPI_Test, &request, &all_are_here, MPI_STATUS_IGNORE);
    if (all_are_here != 0) return;
    if (std::chrono::steady_clock::now() - start > longest) break;
  }
  end_job(
      {fmt::format(
           "the program returned {} on this rank, and the other ranks did not return within {} s",
           exit_code, longest.count()),
       exit_code != 0 ? exit_code : static_cast<int>(ErrorKind::hang), ErrorScope::this_rank});
}

// From the environment variables that Open MPI's, MPICH's and Slurm's launchers set. Must be called
// before MPI_Init, which may set the same in a process without launcher.
bool was_launched() {
  for (const char* const variable : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(variable) != nullptr) return true;
  return false;
}

int world_rank() {
  int rank = 0;
  TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  TASUKI_MPI(MPI_Comm_size, MPI_COMM_WORLD, &size);
  return size;
}

// Open MPI's setting, as far as it is in the environment. Open MPI 5 has one for mpirun alone.
std::optional<std::string> session_base() {
  const char* const base = std::getenv("OMPI_MCA_orte_tmpdir_base");
  return base != nullptr && open_mpi_version < 5 ? std::optional<std::string>(base) : std::nullopt;
}

// MPI starts only once in a process.
void refuse_second_start() {
  int has_ended = 0;
  TASUKI_MPI(MPI_Finalized, &has_ended);
  if (has_ended != 0)
    fail_everywhere(
        ErrorKind::internal,
        "MPI has been finalised in this process and cannot be started again: run_job() and "
        "TrainingProgram::run() can be called once, or several times between the program's own "
        "MPI_Init and MPI_Finalize");
}

const std::array own_communicators = {MPI_COMM_WORLD, MPI_COMM_SELF};
// What happened before after an error of MPI on these communicators.
std::array<MPI_Errhandler, own_communicators.size()> handlers_before;

void return_mpi_errors() {
  for (std::size_t i = 0; i < own_communicators.size(); ++i) {
    TASUKI_MPI(MPI_Comm_get_errhandler, own_communicators[i], &handlers_before[i]);
    TASUKI_MPI(MPI_Comm_set_errhandler, own_communicators[i], MPI_ERRORS_RETURN);
  }
}

void restore_mpi_errors() {
  for (std::size_t i = 0; i < own_communicators.size(); ++i) {
    TASUKI_MPI(MPI_Comm_set_errhandler, own_communicators[i], handlers_before[i]);
    TASUKI_MPI(MPI_Errhandler_free, &handlers_before[i]);
  }
}

void initialize(int* argc, char*** argv) {
  begin_job_process();
  refuse_second_start();
  is_mpi_of_caller = is_mpi_running();
  configure_mpi();
  // A file that grows beyond its limit (ulimit -f) becomes an error of the write instead of ending
  // the process.
  std::signal(SIGXFSZ, SIG_IGN);
  answer_launcher();
  const auto launched = launched_ranks();
  const bool is_launched =
      is_mpi_of_caller ? launched.has_value() || world_size() > 1 : was_launched();
  listen_for_stops(is_launched);
  listen_for_table_requests();
  set_job_identity({.is_alone = !is_launched});  // for an error before MPI runs
  if (!is_launched && !is_mpi_of_caller)         // else it has been used already
    check_session_folder(session_of_process, session_base());
  if (!is_mpi_of_caller) {
    const OneProcessScope without_messages(!is_launched);
    int provided = MPI_THREAD_SINGLE;
    check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    take_signals_back_from_mpi();
    use_alternate_stacks_in_handlers();
  }
  return_mpi_errors();
  const int size = world_size();
  const bool is_foreign = is_of_another_mpi(launched, size);
  set_job_identity({.rank = is_foreign ? launched->rank : world_rank(),
                    .host = host_name(),
                    .is_alone = size == 1 && (!is_launched || is_foreign),
                    .comm = MPI_COMM_WORLD});
  configure_log(world_rank(), LogLevel::info);
  if (is_foreign) refuse_launcher(*launched);
}

}  // namespace

int run_job(int argc, char** argv, const std::function<int(int argc, char** argv)>& job) {
  try {
    auto starting = std::make_unique<StartWatch>(argc, argv);
    initialize(&argc, &argv);
    const std::chrono::seconds after_success = wait_after_success();
    int exit_code = 0;
    {
      // The signals are answered since before MPI_Init.
      const JobGuard guard(job_identity(), {.signals = false});
      starting.reset();
      exit_code = guard.run([&] { return job(argc, argv); });
      leave_together(exit_code, after_success);
      if (is_mpi_of_caller) {
        restore_mpi_errors();
      } else {
        const WaitScope finalizing(Waiting::mpi_finalize);
        TASUKI_MPI(MPI_Finalize);
      }
    }
    if (!job_identity().is_alone && !is_mpi_of_caller)
      end_holders_of_output(fmt::format("rank {} on {}", job_identity().rank, job_identity().host),
                            after_success);
    return exit_code;
  } catch (...) {
    end_job(describe(std::current_exception()));
  }
}

}  // namespace tasuki
