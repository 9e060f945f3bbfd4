#include "tasuki/communicator/start_watch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "tasuki/communicator/environment.hpp"
#include "tasuki/communicator/launcher.hpp"
#include "tasuki/communicator/launcher_end.hpp"
#include "tasuki/communicator/watchdog.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/stopwatch.hpp"

namespace tasuki {
namespace {

void say(const char* kind, double seconds, const std::string& what_then) {
  const std::string line = fmt::format(
      "{}: after {} s the ranks have not all met (this one is on {}): a rank does not start, or "
      "the "
      "network that MPI chose does not connect the machines (name the right one, as --mca "
      "btl_tcp_if_include 192.168.1.0/24); if starting may take that long, raise "
      "--stall-timeout{}\n",
      kind, seconds, host_name(), what_then);
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::perror("stderr");
}

// "--flag 2.5" or "--flag=2.5" at the beginning of the arguments.
void read_flag(std::string_view flag, const char* const* arguments, int count, double& seconds) {
  const std::string_view first = arguments[0];
  if (!first.starts_with(flag)) return;
  std::string_view text = first.substr(flag.size());
  if (text.empty() && count > 1)
    text = arguments[1];
  else if (text.starts_with('='))
    text.remove_prefix(1);
  else
    return;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0) seconds = value;
}

}  // namespace

StartWatch::StartWatch(int argc, const char* const* argv)
    : warning_(stall_limits().warning), timeout_(stall_limits().timeout) {
  for (int i = 1; i < argc; ++i) {
    read_flag("--stall-warning", argv + i, argc - i, warning_);
    read_flag("--stall-timeout", argv + i, argc - i, timeout_);
  }
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // The start goes unwatched; Watchdog will say so of the rest.
  }
}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    has_started_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool StartWatch::starts_within(double seconds, std::unique_lock<std::mutex>& lock) {
  constexpr double slice = 1;
  while (seen_ < seconds) {
    Stopwatch watch;
    const double wanted = std::min(slice, seconds - seen_);
    if (changed_.wait_for(lock, std::chrono::duration<double>(wanted),
                          [this] { return has_started_; }))
      return true;
    seen_ += std::min(watch.lap(), 2 * wanted);
  }
  return false;
}

void StartWatch::run() {
  std::unique_lock lock(mutex_);
  const bool warns = warning_ > 0 && (timeout_ == 0 || warning_ < timeout_);
  if (warns) {
    if (starts_within(warning_, lock)) return;
    if (is_first_rank()) say("warning", warning_, "");
  }
  if (timeout_ == 0) return;
  // The one that speaks ends the job; the others go only should it be the one that is missing.
  constexpr double patience_with_speaker = 2;
  if (starts_within(timeout_ + (is_first_rank() ? 0 : patience_with_speaker), lock)) return;
  say("error", timeout_, "; the job ends");
  ensure_launcher_ends();
  std::_Exit(static_cast<int>(ErrorKind::hang));
}

}  // namespace tasuki
