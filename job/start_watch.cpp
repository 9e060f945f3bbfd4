#include "job/start_watch.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "job/job_end.hpp"
#include "job/launcher.hpp"
#include "job/stall_limits.hpp"

namespace tasuki {
namespace {

// The rank that prints ends the job; the others print later, in case that rank is the one that is
// missing.
constexpr double patience_with_speaker = 2;

void print_line(const std::string& line) {
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::perror("stderr");
}

void say_unmet(const char* kind, double seconds, const std::string& what_then) {
  print_line(
      fmt::format("{}: after {} s the ranks have not all met (this one is on {}): a rank does not "
                  "start, or the network that MPI chose does not connect the machines (choose "
                  "another one, for example with --mca btl_tcp_if_include 192.168.1.0/24); if "
                  "starting may take that long, raise --stall-timeout{}\n",
                  kind, seconds, host_name(), what_then));
}

[[noreturn]] void end_process() {
  ensure_launcher_ends();
  std::_Exit(static_cast<int>(ErrorKind::hang));
}

// Reads `seconds` if the arguments begin with "--flag 2.5" or "--flag=2.5".
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
    : warning_(stall_limits().warning),
      timeout_(stall_limits().timeout),
      silence_(stall_limits().silence),
      connections_({getpid(), launcher_process()}) {
  for (int i = 1; i < argc; ++i) {
    read_flag("--stall-warning", argv + i, argc - i, warning_);
    read_flag("--stall-timeout", argv + i, argc - i, timeout_);
    read_flag("--silence-timeout", argv + i, argc - i, silence_);
  }
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // The start is not watched; Watchdog will report that threads cannot be started.
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
    const double seen = std::min(watch.lap(), 2 * wanted);
    seen_ += seen;
    end_if_host_is_lost(seen, lock);
  }
  return false;
}

void StartWatch::end_if_host_is_lost(double seconds, std::unique_lock<std::mutex>& lock) {
  if (timeout_ == 0 || silence_ == 0) return;
  const auto peer = connections_.find_lost(seconds, silence_);
  if (!peer) return;
  if (!is_first_rank_of_host() &&
      changed_.wait_for(lock, std::chrono::duration<double>(patience_with_speaker),
                        [this] { return has_started_; }))
    return;
  print_line(fmt::format(
      "error: {} has not answered {} for {} s while the job starts: that host, or the "
      "network between the two, is lost; look at both (ping {}) and start the job again; if hosts "
      "may be out of reach for that long, raise --silence-timeout; the job ends\n",
      *peer, host_name(), silence_, *peer));
  end_process();
}

void StartWatch::run() {
  std::unique_lock lock(mutex_);
  const bool warns = warning_ > 0 && (timeout_ == 0 || warning_ < timeout_);
  if (warns) {
    if (starts_within(warning_, lock)) return;
    if (is_first_rank()) say_unmet("warning", warning_, "");
  }
  if (timeout_ == 0) return;
  if (starts_within(timeout_ + (is_first_rank() ? 0 : patience_with_speaker), lock)) return;
  say_unmet("error", timeout_, "; the job ends");
  end_process();
}

}  // namespace tasuki
