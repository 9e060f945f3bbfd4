#include "tools/supervisor/stuck_launcher.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "core/process_state.hpp"

namespace tasuki::supervisor {
namespace {

bool is_alive(pid_t process) {
  const auto state = process_state(process);
  return state && !state->has_ended();
}

bool has_room(int file) {
  pollfd room{file, POLLOUT, 0};
  return poll(&room, 1, 0) == 1;
}

}  // namespace

bool StuckLauncher::is_ending() {
  const auto state = process_state(launcher_);
  if (!state || state->has_ended() || state->is_stopped() || state->tracer != 0) return false;
  if (state->catches(SIGUSR1)) {
    had_handler_ = true;
    return false;
  }
  return had_handler_ && has_room(STDOUT_FILENO) &&
         std::ranges::none_of(descendants(launcher_), is_alive);
}

bool StuckLauncher::is_stuck(Clock::time_point now) {
  if (!is_ending()) {
    forget();
    return false;
  }
  if (!ending_since_) ending_since_ = now;
  return now - *ending_since_ > limit;
}

}  // namespace tasuki::supervisor
