#include "job/launcher.hpp"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <string_view>

#include "core/alternate_stack.hpp"
#include "core/job_process.hpp"
#include "core/stop_request.hpp"

namespace tasuki {
namespace {

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
// hosts that took 2 to 3 s. A SIGCHLD ends such a sleep, but that of a rank's end goes to another
// thread of the daemon. So a rank answers both signals with a SIGCHLD. A daemon that is awake, or
// that does not sleep, and any other parent ignores it. The handler itself waits, because a rank
// that is about to exit must not do so before it has answered. SIGKILL follows the first answer to
// SIGTERM, so rank 0 answers it first.
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

bool is_zero_or_unset(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr || std::string_view(value) == "0";
}

}  // namespace

void answer_launcher() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return;
  use_alternate_stack();
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* const local_rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  lets_rank_0_speak = !is_first_rank() && rank != nullptr && local_rank != nullptr &&
                      std::string_view(rank) == local_rank;
  for (const int signal : {SIGCONT, SIGTERM}) {
    struct sigaction present {};
    if (sigaction(signal, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) continue;
    struct sigaction answer {};
    answer.sa_handler = wake_launcher;
    answer.sa_flags = SA_RESTART | SA_ONSTACK;
    sigaction(signal, &answer, nullptr);
  }
}

bool is_first_rank() {
  return is_zero_or_unset("OMPI_COMM_WORLD_RANK");
}

bool is_first_rank_of_host() {
  return is_zero_or_unset("OMPI_COMM_WORLD_LOCAL_RANK");
}

}  // namespace tasuki
