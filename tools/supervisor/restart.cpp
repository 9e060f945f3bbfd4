#include "tools/supervisor/restart.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"

namespace tasuki::supervisor {
namespace {

constexpr std::int64_t longest_wait = 60;  // seconds

}  // namespace

bool is_final(int exit_code) {
  constexpr std::array kinds = {ErrorKind::usage,        ErrorKind::data,   ErrorKind::missing,
                                ErrorKind::cannot_write, ErrorKind::config, ErrorKind::stopped};
  return exit_code == 0 ||
         std::ranges::find(kinds, static_cast<ErrorKind>(exit_code)) != kinds.end();
}

bool is_launchers_refusal(int exit_code) {
  return exit_code == 1 || exit_code == 213;
}

bool is_daemon_missing(int exit_code) {
  return exit_code == 126 || exit_code == 127;
}

std::optional<std::chrono::seconds> Restarts::next(bool has_progressed) {
  if (has_progressed) count_ = 0;
  if (count_ >= most_) return std::nullopt;
  ++count_;
  is_at_once_ = has_progressed;
  return wait();
}

std::chrono::seconds Restarts::wait() const {
  if (is_at_once_ || count_ == 0) return std::chrono::seconds(0);
  const std::int64_t doublings = std::min<std::int64_t>(count_ - 1, 6);
  return std::chrono::seconds(std::min(longest_wait, std::int64_t{1} << doublings));
}

}  // namespace tasuki::supervisor
