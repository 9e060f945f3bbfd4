#include "tools/supervisor/stuck_launcher.hpp"

#include <signal.h>

#include <algorithm>

#include "core/process_state.hpp"
#include "job/launcher.hpp"

namespace tasuki::supervisor {
namespace {

bool is_alive(pid_t process) {
  const auto state = process_state(process);
  return state && !state->has_ended();
}

}  // namespace

bool StuckLauncher::note_ready() {
  if (was_ready_) return true;
  const auto state = process_state(launcher_);
  was_ready_ = state && is_launcher_name(state->name.data()) && state->catches(SIGUSR1);
  return was_ready_;
}

bool StuckLauncher::is_ending() const {
  const auto state = process_state(launcher_);
  return state && state->state == 'S' && state->tracer == 0 && !state->catches(SIGUSR1) &&
         std::ranges::none_of(descendants(launcher_), is_alive);
}

bool StuckLauncher::is_stuck(bool may_print) {
  looks_ = note_ready() && may_print && is_ending() ? looks_ + 1 : 0;
  return looks_ > limit;
}

}  // namespace tasuki::supervisor
