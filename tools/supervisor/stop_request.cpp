#include "tools/supervisor/stop_request.hpp"

#include <signal.h>

#include <algorithm>

#include "core/error.hpp"

namespace tasuki::supervisor {
namespace {

constexpr double unread_job_saves_in = 3;  // seconds

}  // namespace

StopAction StopRequest::on_signal(int signal) {
  if (signal == SIGUSR2) return StopAction::pass_on;
  const bool is_first = !is_made(), is_first_of_kind = met_.insert(signal).second;
  if (is_training_ || signal != SIGUSR1)
    if (is_first) signal_ = signal;
  if (!is_training_) return signal == SIGPIPE ? StopAction::end_at_once : StopAction::pass_on;
  if (is_first) return StopAction::save_and_stop;
  const bool is_urgent = signal == SIGINT || signal == SIGTERM;
  return is_urgent && !is_first_of_kind ? StopAction::end_at_once : StopAction::none;
}

bool StopRequest::wait(const Signals& signals, std::chrono::milliseconds time) {
  const std::optional<int> signal = signals.wait_for_stop(time);
  if (signal) on_signal(*signal);
  return !signal;
}

int StopRequest::exit_code(int exit_code) const {
  if (!is_training_ && signal_ != SIGPIPE) return exit_code;
  const bool is_ours = exit_code >= static_cast<int>(ErrorKind::usage) &&
                       exit_code <= static_cast<int>(ErrorKind::stopped);
  return exit_code == 0 || is_ours ? exit_code : 128 + signal_;
}

double StopRequest::time_to_save(double stop_timeout) const {
  return signal_ == SIGPIPE ? std::min(stop_timeout, unread_job_saves_in) : stop_timeout;
}

}  // namespace tasuki::supervisor
