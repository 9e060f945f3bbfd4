#include "job/run_job.hpp"
#include "core/environment.hpp"

#include <fmt/core.h>
#include <mpi.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "communicator/mpi/mpi.hpp"
#include "communicator/mpi/open_mpi.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/job_process.hpp"
#include "core/log.hpp"
#include "core/polite_wait.hpp"
#include "core/printable.hpp"
#include "core/stop_request.hpp"
#include "core/system_error.hpp"
#include "job/job_end.hpp"
#include "job/launcher.hpp"
#include "job/mpi_settings.hpp"
#include "job/session_folder.hpp"
#include "job/signals.hpp"
#include "job/start_watch.hpp"
#include "job/watchdog.hpp"

namespace tasuki {
namespace {

// The name of this process in messages; set once MPI knows it.
int world_rank = 0;
std::string host;
// Started without mpirun (or another launcher): the job is this process.
bool is_alone = false;
// MPI was initialised before run_job(), by a program that also finalises it.
bool is_mpi_of_caller = false;
std::thread::id main_thread;
// True from MPI_Init to the regular end of the job; leaving the process in between is an error.
std::atomic<bool> job_is_running = false;
std::terminate_handler terminate_before = nullptr;

struct Failure {
  std::string cause;  // nothing in it controls a terminal
  int exit_code;
  ErrorScope scope;
};

Failure describe(const std::exception_ptr& exception) {
  constexpr int internal = static_cast<int>(ErrorKind::internal);
  try {
    std::rethrow_exception(exception);
  } catch (const TableError& error) {
    return {printable_lines(error.what()), error.exit_code(), error.scope()};
  } catch (const Error& error) {
    return {message_line(error.what()), static_cast<int>(kind_at_end(error)), error.scope()};
  } catch (const std::bad_alloc&) {
    return {"out of memory", static_cast<int>(ErrorKind::unavailable), ErrorScope::this_rank};
  } catch (const std::exception& error) {
    return {message_line(error.what()), internal, ErrorScope::this_rank};
  } catch (...) {
    return {"an exception of unknown type", internal, ErrorScope::this_rank};
  }
}

// mpirun, told to end the job at once, may exit before it has read this process's pipe. Waits only
// briefly, because the pipe may have no reader.
void wait_until_read(int pipe) {
  constexpr std::chrono::milliseconds look{1}, longest{500};
  int unread = 0;
  for (auto waited = look; waited < longest; waited += look) {
    if (ioctl(pipe, FIONREAD, &unread) != 0 || unread == 0) break;
    std::this_thread::sleep_for(look);
  }
  // mpirun has read everything and still has to write it, which takes it a few milliseconds.
  std::this_thread::sleep_for(10 * look);
}

// MPI_Finalize may block after an error.
constexpr std::chrono::seconds longest_finalize{2};

bool is_mpi_running() {
  int has_begun = 0, has_ended = 0;
  MPI_Initialized(&has_begun);
  MPI_Finalized(&has_ended);
  return has_begun != 0 && has_ended == 0;
}

// Without MPI_Abort, which prints a paragraph. Only the thread that initialised MPI may finalize
// it.
[[noreturn]] void leave_alone(int exit_code) {
  if (std::this_thread::get_id() == main_thread) {
    try {
      std::thread([exit_code] {
        std::this_thread::sleep_for(longest_finalize);
        std::_Exit(exit_code);  // MPI is in no state to end
      }).detach();
    } catch (const std::system_error&) {
      std::_Exit(exit_code);
    }
    if (is_mpi_running()) MPI_Finalize();
  }
  std::_Exit(exit_code);
}

// Gives rank 0 time to print an error that all ranks meet, and to end the job: Open MPI sometimes
// waits 2 s for rank 0's process before it ends those on other hosts.
constexpr std::chrono::seconds turn_of_rank_0{3};

// Ends all ranks. Only the first failure of a process is printed, in one write, so that the lines
// of several ranks do not mix.
[[noreturn]] void end_job(const Failure& failure) {
  static std::atomic_flag ending = ATOMIC_FLAG_INIT;
  if (!ending.test_and_set()) {
    job_is_running = false;
    drop_last_words();
    std::fflush(stdout);
    if (failure.scope == ErrorScope::every_rank && world_rank != 0) {
      // Rank 0 prints the error and ends this process; if it did not meet the error, this rank
      // prints it.
      std::this_thread::sleep_for(turn_of_rank_0);
    }
    const std::string line =
        failure.scope == ErrorScope::every_rank && world_rank == 0
            ? fmt::format("error: {}\n", failure.cause)
            : fmt::format("rank {} on {}: {}\n", world_rank, host, failure.cause);
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::perror("stderr");
    if (is_alone) leave_alone(failure.exit_code);
    if (!is_mpi_running()) std::_Exit(failure.exit_code);
    wait_until_read(STDERR_FILENO);
    ensure_launcher_ends();
    MPI_Abort(MPI_COMM_WORLD, failure.exit_code);
    std::_Exit(failure.exit_code);
  }
  // Another thread is ending the job; leaving now would suppress its line.
  for (;;) pause();
}

// A forked child ends alone, without destructors of objects that are its parent's.
[[noreturn]] void end_child(int exit_code) {
  std::fflush(stdout);
  std::_Exit(exit_code);
}

[[noreturn]] void end_child(const Failure& failure) {
  const std::string line = fmt::format("rank {} on {}: a process that the program forked: {}\n",
                                       world_rank, host, failure.cause);
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::perror("stderr");
  end_child(failure.exit_code);
}

// Called for std::terminate in any thread: an exception left a thread or a noexcept function.
[[noreturn]] void on_terminate() {
  const auto exception = std::current_exception();
  if (!is_job_process()) {
    if (exception) end_child(describe(exception));
    if (terminate_before != nullptr) terminate_before();
    std::abort();
  }
  if (exception) end_job(describe(exception));
  end_job(
      {"std::terminate was called", static_cast<int>(ErrorKind::internal), ErrorScope::this_rank});
}

void on_early_exit(int status, void* /*unused*/) {
  if (!job_is_running || !is_job_process()) return;
  end_job({fmt::format("the program called exit({}) in the middle of the job", status),
           status != 0 ? status : static_cast<int>(ErrorKind::internal), ErrorScope::this_rank});
}

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
  is_alone = !is_launched;            // for an error before MPI runs
  if (is_alone && !is_mpi_of_caller)  // else it has been used already
    check_session_folder(session_of_process, session_base());
  if (!is_mpi_of_caller) {
    const OneProcessScope without_messages(is_alone);
    int provided = MPI_THREAD_SINGLE;
    check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  }
  return_mpi_errors();
  TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &world_rank);
  const int size = world_size();
  main_thread = std::this_thread::get_id();
  host = host_name();
  configure_log(world_rank, LogLevel::info);
  is_alone = size == 1 && (!is_launched || is_of_another_mpi(launched, size));
  if (is_of_another_mpi(launched, size)) {
    world_rank = launched->rank;
    refuse_launcher(*launched);
  }
}

// The job's exit code, or that of a training run that was stopped. A forked child does not return
// from here.
int run_until_stopped(int argc, char** argv, const std::function<int(int argc, char** argv)>& job) {
  try {
    const int exit_code = job(argc, argv);
    if (!is_job_process()) end_child(exit_code);
    return exit_code;
  } catch (const Stopped& stopped) {
    std::fflush(stdout);
    if (world_rank == 0) fmt::print(stderr, "{}\n", message_line(stopped.what()));
    return stopped.exit_code();
  } catch (...) {
    if (!is_job_process()) end_child(describe(std::current_exception()));
    throw;
  }
}

// While it exists, a process that ends early ends its job.
struct EndHandlers {
  EndHandlers() {
    terminate_before = std::set_terminate(on_terminate);
    [[maybe_unused]] static const int kept = on_exit(on_early_exit, nullptr);
  }
  ~EndHandlers() { std::set_terminate(terminate_before); }
  EndHandlers(const EndHandlers&) = delete;
  EndHandlers& operator=(const EndHandlers&) = delete;
};

}  // namespace

int run_job(int argc, char** argv, const std::function<int(int argc, char** argv)>& job) {
  try {
    auto starting = std::make_unique<StartWatch>(argc, argv);
    initialize(&argc, &argv);
    job_is_running = true;
    const std::chrono::seconds after_success = wait_after_success();
    int exit_code = 0;
    {
      const EndHandlers handlers;
      const Watchdog watchdog;
      starting.reset();
      exit_code = run_until_stopped(argc, argv, job);
      leave_together(exit_code, after_success);
      if (is_mpi_of_caller) {
        restore_mpi_errors();
      } else {
        const WaitScope finalizing(Waiting::mpi_finalize);
        TASUKI_MPI(MPI_Finalize);
      }
      job_is_running = false;
      end_job_process();
    }
    if (!is_alone && !is_mpi_of_caller)
      end_holders_of_output(fmt::format("rank {} on {}", world_rank, host), after_success);
    return exit_code;
  } catch (...) {
    end_job(describe(std::current_exception()));
  }
}

}  // namespace tasuki
