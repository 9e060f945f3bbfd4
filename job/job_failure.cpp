#include "job/job_failure.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <mpi.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>
#include <thread>

#include "core/job_process.hpp"
#include "core/printable.hpp"
#include "core/stop_request.hpp"
#include "core/system_error.hpp"
#include "job/job_end.hpp"

namespace tasuki {
namespace {

JobIdentity own;
std::thread::id main_thread;
// Leaving the process meanwhile is an error.
std::atomic<bool> is_running = false;
std::terminate_handler terminate_before = nullptr;

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

// MPICH's MPI_Abort prints a line, which would follow the error.
void hide_messages() {
  const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDERR_FILENO);
}

// MPI_Finalize may block after an error.
constexpr std::chrono::seconds longest_finalize{2};

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

}  // namespace

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

void set_job_identity(const JobIdentity& identity) {
  own = identity;
  main_thread = std::this_thread::get_id();
}

bool is_mpi_running() {
  int has_begun = 0, has_ended = 0;
  MPI_Initialized(&has_begun);
  MPI_Finalized(&has_ended);
  return has_begun != 0 && has_ended == 0;
}

const JobIdentity& job_identity() {
  return own;
}

void end_job(const Failure& failure) {
  static std::atomic_flag ending = ATOMIC_FLAG_INIT;
  if (!ending.test_and_set()) {
    is_running = false;
    drop_last_words();
    std::fflush(stdout);
    if (failure.scope == ErrorScope::every_rank && own.rank != 0) {
      // Rank 0 prints the error and ends this process; if it did not meet the error, this rank
      // prints it.
      std::this_thread::sleep_for(turn_of_rank_0);
    }
    const std::string line =
        failure.scope == ErrorScope::every_rank && own.rank == 0
            ? fmt::format("error: {}\n", failure.cause)
            : fmt::format("rank {} on {}: {}\n", own.rank, own.host, failure.cause);
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::perror("stderr");
    if (own.is_alone) leave_alone(failure.exit_code);
    if (!is_mpi_running()) std::_Exit(failure.exit_code);
    wait_until_read(STDERR_FILENO);
    hide_messages();
    ensure_launcher_ends();
    MPI_Abort(own.comm == MPI_COMM_NULL ? MPI_COMM_WORLD : own.comm, failure.exit_code);
    std::_Exit(failure.exit_code);
  }
  // Another thread is ending the job; leaving now would suppress its line.
  for (;;) pause();
}

void end_child(int exit_code) {
  std::fflush(stdout);
  std::_Exit(exit_code);
}

void end_child(const Failure& failure) {
  const std::string line = fmt::format("rank {} on {}: a process that the program forked: {}\n",
                                       own.rank, own.host, failure.cause);
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::perror("stderr");
  end_child(failure.exit_code);
}

namespace {

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
  if (!is_running || !is_job_process()) return;
  end_job({fmt::format("the program called exit({}) in the middle of the job", status),
           status != 0 ? status : static_cast<int>(ErrorKind::internal), ErrorScope::this_rank});
}

}  // namespace

EndHandlers::EndHandlers() {
  terminate_before = std::set_terminate(on_terminate);
  [[maybe_unused]] static const int kept = on_exit(on_early_exit, nullptr);
  is_running = true;
  set_errors_end_job(true);
}

EndHandlers::~EndHandlers() {
  set_errors_end_job(false);
  is_running = false;
  std::set_terminate(terminate_before);
}

}  // namespace tasuki
