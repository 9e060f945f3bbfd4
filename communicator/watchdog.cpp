#include "tasuki/communicator/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <span>
#include <system_error>
#include <utility>

#include "tasuki/communicator/mpi.hpp"
#include "tasuki/communicator/stall_text.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/core/stopwatch.hpp"

namespace tasuki {
namespace {

// Times the limit that ends a job, for what may be work.
constexpr double patience_with_work = 6;

// Limits, and what wakes the thread that goes by them.
std::mutex mutex;
std::condition_variable changed;
StallLimits set_limits;
int times_set = 0;

}  // namespace

void set_stall_limits(const StallLimits& limits) {
  {
    const std::lock_guard lock(mutex);
    set_limits = limits;
    ++times_set;
  }
  changed.notify_all();
}

StallLimits stall_limits() {
  const std::lock_guard lock(mutex);
  return set_limits;
}

// With the mutex held.
Watchdog::Limits Watchdog::present_limits() {
  return {set_limits.warning, set_limits.timeout};
}

// Seconds between two looks.
double Watchdog::interval_of(const Limits& limits) {
  constexpr double shortest = 0.05, longest = 5, looks_within_limit = 8;
  double least = longest * looks_within_limit;
  for (const double limit : {limits.warning, limits.timeout})
    if (limit > 0) least = std::min(least, limit);
  return std::clamp(least / looks_within_limit, shortest, longest);
}

Watchdog::Watchdog() : heartbeats_(board_.ranks()) {
  TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &rank_);
  for (const std::string& host : heartbeats_.hosts()) {
    ranks_.emplace_back();
    ranks_.back().host = host;
  }
  for (const int rank : board_.ranks()) own_node_.push_back({rank, {}});
  {
    // So that other nodes have heard of this one, whatever becomes of it.
    const std::lock_guard lock(mutex);
    look(present_limits(), 0);
  }
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    log_warning("there is no watchdog for ranks that are stuck: {}", error.what());
  }
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex);
    stopping_ = true;
  }
  changed.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::run() {
  Stopwatch watch;
  std::unique_lock lock(mutex);
  while (!stopping_) {
    const Limits limits = present_limits();
    const double interval = interval_of(limits);
    const auto is_disturbed = [this, seen = times_set] { return stopping_ || times_set != seen; };
    if (changed.wait_for(lock, std::chrono::duration<double>(interval), is_disturbed)) continue;
    lock.unlock();
    // A process that was stopped, or waited long for a processor, has not seen whether others moved
    // meanwhile.
    look(limits, std::min(watch.lap(), 2 * interval));
    lock.lock();
  }
}

void Watchdog::update(int rank, const Activity& activity) {
  RankView& view = ranks_[static_cast<std::size_t>(rank)];
  const bool is_new = !std::exchange(view.is_known, true);
  if (is_new || activity.moves != view.activity.moves) view.still = 0;
  if (is_new || activity.beats != view.activity.beats) view.silent = 0;
  view.activity = activity;
}

// The first rank that is alive, of all that are known.
bool Watchdog::is_speaker(double silent_seconds) const {
  const auto before = std::span(ranks_).first(static_cast<std::size_t>(rank_));
  return std::ranges::all_of(
      before, [&](const RankView& rank) { return rank.is_known && rank.silent >= silent_seconds; });
}

void Watchdog::look(const Limits& limits, double seconds) {
  report_life();
  for (RankView& rank : ranks_) {
    rank.still += seconds;
    rank.silent += seconds;
  }
  const double missed_looks = std::max(3 * interval_of(limits), 0.5);
  for (std::size_t place = 0; place < own_node_.size(); ++place) {
    own_node_[place].activity = board_.read(place);
    update(own_node_[place].rank, own_node_[place].activity);
  }
  heartbeats_.receive([this](const RankActivity& each) { update(each.rank, each.activity); });
  const auto first_alive = std::ranges::find_if(board_.ranks(), [&](int rank) {
    return ranks_[static_cast<std::size_t>(rank)].silent < missed_looks;
  });
  if (*first_alive == rank_) heartbeats_.send(own_node_);

  warn(limits, missed_looks);
  end_job_when_due(limits, seconds, missed_looks);
}

double Watchdog::due(const Limits& limits, const Stall& stall) {
  return stall.may_be_work ? patience_with_work * limits.timeout : limits.timeout;
}

void Watchdog::warn(const Limits& limits, double silent_seconds) {
  if (limits.warning == 0) return;
  const auto stall = find_stall(ranks_, limits.warning, silent_seconds);
  if (std::exchange(has_warned_, stall.has_value()) || !stall || !is_speaker(silent_seconds))
    return;
  const std::string end =
      limits.timeout > 0 && stall->is_certain
          ? fmt::format("; the job ends after {} s of this", due(limits, *stall))
          : std::string();
  log_warning("nothing has moved for {:.0f} s: {}{}", stall->seconds,
              describe_stall(*stall, ranks_, silent_seconds), end);
}

void Watchdog::end_job_when_due(const Limits& limits, double seconds, double silent_seconds) {
  if (limits.timeout == 0) return;
  const auto stall = find_stall(ranks_, limits.timeout, silent_seconds);
  if (!stall || !stall->is_certain || stall->seconds < due(limits, *stall)) {
    overdue_ = 0;
    return;
  }
  constexpr double patience_with_speaker = 1.5;
  overdue_ += seconds;
  if (!is_speaker(silent_seconds) && overdue_ < patience_with_speaker) return;
  throw Error(ErrorKind::hang,
              fmt::format("nothing has moved for {:.0f} s: {}; if work may take that long, {}\n{}",
                          stall->seconds, describe_stall(*stall, ranks_, silent_seconds),
                          stall_limits().way_out, stall_table(*stall, ranks_, silent_seconds)),
              rank_ == 0 ? ErrorScope::every_rank : ErrorScope::this_rank);
}

}  // namespace tasuki
