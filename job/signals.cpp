#include "job/signals.hpp"

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "core/alternate_stack.hpp"
#include "core/job_process.hpp"
#include "core/stop_request.hpp"
#include "core/terminal.hpp"
#include "job/launcher.hpp"

namespace tasuki {
namespace {

// What contains this address; null: nothing that was loaded.
const link_map* library_of(const void* address) {
  Dl_info ignored{};
  void* found = nullptr;
  return dladdr1(address, &ignored, &found, RTLD_DL_LINKMAP) != 0
             ? static_cast<const link_map*>(found)
             : nullptr;
}

// MPICH has a handler for SIGUSR1 from MPI_Init on. False if MPI is linked into the program itself,
// which has no name here.
bool is_in_mpi_library(void (*handler)(int)) {
  const link_map* const mpi = library_of(dlsym(RTLD_DEFAULT, "PMPI_Init"));
  return mpi != nullptr && *mpi->l_name != '\0' &&
         mpi == library_of(reinterpret_cast<const void*>(handler));
}

// Whether the program neither handles nor ignores it. `present` is set to what happens then.
bool is_free(int signal, struct sigaction& present) {
  return sigaction(signal, nullptr, &present) == 0 && present.sa_handler != SIG_IGN &&
         (present.sa_handler == SIG_DFL || is_in_mpi_library(present.sa_handler));
}

// The signals that a SignalScope gives back, their handlers, and what happened before.
struct Taken {
  int signal;
  void (*handler)(int);
  struct sigaction before;
};
std::vector<Taken> taken;

void install(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(signal, &action, nullptr);
}

// Leaves a signal alone that the program handles or ignores already.
void handle(int signal, void (*handler)(int)) {
  struct sigaction before {};
  if (!is_free(signal, before)) return;
  taken.push_back({signal, handler, before});
  install(signal, handler);
}

// Whether rank 0, which has last words, is another process of this host: so where ranks are dealt
// to one host after the other. Elsewhere a rank does not know it, and answers at once.
bool lets_rank_0_speak = false;

// Whether a SIGCONT was answered less than 100 ms ago; if not, this one is answered. A daemon sends
// one; answering all of a flood would slow the rank down.
bool has_just_answered() {
  static std::atomic<std::int64_t> last = 0;
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t milliseconds = std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  std::int64_t before = last;
  return milliseconds - before < 100 || !last.compare_exchange_strong(before, milliseconds);
}

// To end a job, Open MPI's daemon on a host sends its ranks SIGCONT, sleeps a second, sends SIGTERM
// and sleeps a second; mpirun does so for its own host before it tells the others. With several
// hosts that took 2 to 3 s. A SIGCHLD ends such a sleep, but the one for a rank's end goes to
// another thread of the daemon. So a rank answers both signals with a SIGCHLD. A daemon that is
// awake, or that does not sleep, and any other parent ignores it. The handler itself waits, because
// a rank that is about to exit must not do so before it has answered. SIGKILL follows the first
// answer to SIGTERM, so rank 0 answers it first.
void wake_launcher(int signal) {
  const int saved_errno = errno;
  const bool is_rank = is_job_process();
  if (signal == SIGCONT && (!is_rank || has_just_answered())) return;
  // There is no time to save: SIGKILL follows within about a second. Whether a user or the failure
  // of another rank ends the job is not known here.
  if (is_rank) {
    if (signal == SIGTERM) say_last_words(how_jobs_end);
    constexpr int until_it_sleeps = 10, until_words_are_said = 300;  // milliseconds
    poll(nullptr, 0,
         signal == SIGTERM && lets_rank_0_speak ? until_words_are_said : until_it_sleeps);
    if (const pid_t parent = getppid(); parent > 1) kill(parent, SIGCHLD);
  }
  if (signal == SIGTERM) {
    std::signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);
  }
  errno = saved_errno;
}

void say(std::string_view line) {
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

std::string_view how_it_ends = "interrupted";
bool is_rank_0 = true;

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void stop_or_end(int signal) {
  const int saved_errno = errno;
  const bool is_first = !stop_requested();
  if (!is_job_process()) {
    // mpirun sends SIGUSR1 to a rank's children, too, which have nothing to save.
    if (signal != SIGUSR1) end_by(signal);
  } else if (can_stop() && (is_first || signal == SIGUSR1)) {
    request_stop();
    if (is_first && signal != SIGUSR1 && is_rank_0) {
      end_bar();
      say("stopping after this step; a second signal ends the run at once\n");
    }
  } else if (signal != SIGUSR1 || !training_has_begun()) {
    say_last_words(how_it_ends);
    end_by(signal);
  }
  errno = saved_errno;
}

// Never closed, because a handler may be about to write to it.
int table_wake = -1;

void ask_for_table(int /*signal*/) {
  const int saved_errno = errno;
  if (is_job_process()) eventfd_write(table_wake, 1);
  errno = saved_errno;
}

}  // namespace

void answer_launcher() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return;
  use_alternate_stack();
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* const local_rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  lets_rank_0_speak = !is_first_rank() && rank != nullptr && local_rank != nullptr &&
                      std::string_view(rank) == local_rank;
  handle(SIGCONT, wake_launcher);
  handle(SIGTERM, wake_launcher);
}

void listen_for_stops(bool was_launched) {
  use_alternate_stack();
  is_rank_0 = is_first_rank();
  if (was_launched) how_it_ends = how_jobs_end;
  handle(SIGUSR1, stop_or_end);
  if (was_launched && !was_started_by_hydra()) return;
  handle(SIGINT, stop_or_end);
  handle(SIGTERM, stop_or_end);
}

void listen_for_table_requests() {
  struct sigaction present {};
  if (!is_free(SIGUSR2, present)) return;
  if (table_wake < 0) table_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (table_wake >= 0) handle(SIGUSR2, ask_for_table);
}

void take_signals_back_from_mpi() {
  for (const Taken& each : taken) {
    struct sigaction present {};
    if (sigaction(each.signal, nullptr, &present) == 0 && is_in_mpi_library(present.sa_handler))
      install(each.signal, each.handler);
  }
}

SignalScope::SignalScope() {
  taken.clear();
}

SignalScope::~SignalScope() {
  for (const Taken& each : taken) {
    struct sigaction present {};
    if (sigaction(each.signal, nullptr, &present) == 0 && present.sa_handler == each.handler)
      sigaction(each.signal, &each.before, nullptr);
  }
}

int table_request_wake() {
  return table_wake;
}

bool take_table_requests() {
  eventfd_t requests = 0;
  return table_wake >= 0 && eventfd_read(table_wake, &requests) == 0;
}

}  // namespace tasuki
