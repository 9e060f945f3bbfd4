#include "job/stop_signals.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

#include "core/alternate_stack.hpp"
#include "core/job_process.hpp"
#include "core/stop_request.hpp"
#include "core/terminal.hpp"
#include "job/launcher.hpp"

namespace tasuki {
namespace {

void say(std::string_view line) {
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

std::string_view how_it_ends = "interrupted";

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void on_signal(int signal) {
  const int saved_errno = errno;
  const bool is_first = !stop_requested();
  if (!is_job_process()) {
    // mpirun sends SIGUSR1 to a rank's children, too, which have nothing to save.
    if (signal != SIGUSR1) end_by(signal);
  } else if (can_stop() && (is_first || signal == SIGUSR1)) {
    request_stop();
    if (is_first && signal != SIGUSR1) {
      end_bar();
      say("stopping after this step; a second signal ends the run at once\n");
    }
  } else if (signal != SIGUSR1 || !training_has_begun()) {
    say_last_words(how_it_ends);
    end_by(signal);
  }
  errno = saved_errno;
}

void handle(int signal) {
  struct sigaction present {};
  if (sigaction(signal, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void listen_for_stops(bool was_launched) {
  use_alternate_stack();
  if (was_launched) how_it_ends = how_jobs_end;
  handle(SIGUSR1);
  if (was_launched) return;
  handle(SIGINT);
  handle(SIGTERM);
}

}  // namespace tasuki
