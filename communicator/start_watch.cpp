#include "tasuki/communicator/start_watch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tasuki/communicator/environment.hpp"
#include "tasuki/communicator/watchdog.hpp"
#include "tasuki/core/error.hpp"

namespace tasuki {
namespace {

bool speaks() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr || std::string_view(rank) == "0";
}

void say(const char* kind, double seconds, const std::string& what_then) {
  const std::string line = fmt::format(
      "{}: after {} s the ranks have not all met (this one is on {}): a rank does not start, or "
      "the "
      "network that MPI chose does not connect the machines; name the right one, as --mca "
      "btl_tcp_if_include 192.168.1.0/24{}\n",
      kind, seconds, host_name(), what_then);
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::perror("stderr");
}

}  // namespace

StartWatch::StartWatch() : warning_(stall_limits().warning), timeout_(stall_limits().timeout) {
  thread_ = std::thread([this] { run(); });
}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    has_started_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void StartWatch::run() {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  const auto starts_within = [&](double seconds) {
    return changed_.wait_until(lock, begin + std::chrono::duration<double>(seconds),
                               [this] { return has_started_; });
  };
  const bool warns = warning_ > 0 && (timeout_ == 0 || warning_ < timeout_);
  if (warns) {
    if (starts_within(warning_)) return;
    if (speaks()) say("warning", warning_, "");
  }
  if (timeout_ == 0) return;
  // The one that speaks ends the job; the others go only should it be the one that is missing.
  constexpr double patience_with_speaker = 2;
  if (starts_within(timeout_ + (speaks() ? 0 : patience_with_speaker))) return;
  say("error", timeout_, "; the job ends");
  std::_Exit(static_cast<int>(ErrorKind::hang));
}

}  // namespace tasuki
