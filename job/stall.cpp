#include "job/stall.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace tasuki {
namespace {

bool waits(const RankView& rank) {
  return rank.activity.waiting != Waiting::nothing;
}

bool has_returned(const RankView& rank) {
  return rank.activity.waiting == Waiting::program_end;
}

bool runs_own_code(const RankView& rank) {
  return !waits(rank) &&
         (rank.activity.phase == Phase::own_work || rank.activity.phase == Phase::extension);
}

// Whether a rank that makes no progress is at fault: it waits, or its phase reports progress.
bool is_held_up(const RankView& rank) {
  return waits(rank) ? !has_returned(rank) : !runs_own_code(rank);
}

bool is_message(Waiting kind) {
  return kind == Waiting::send || kind == Waiting::recv;
}

// Equal for ranks that wait for each other's arrival.
using Meeting = std::tuple<std::uint64_t, Waiting, std::int64_t>;

Meeting meeting_of(const Activity& activity) {
  return {activity.communicator, activity.waiting, activity.number};
}

template <class Condition>
std::vector<int> ranks_where(std::span<const RankView> ranks, const Condition& condition) {
  std::vector<int> found;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].is_known && condition(ranks[rank])) found.push_back(static_cast<int>(rank));
  return found;
}

// Ranks that are behind others in the operations of a communicator.
std::vector<int> ranks_behind(std::span<const RankView> ranks) {
  std::map<std::uint64_t, std::int64_t> furthest;
  for (const RankView& rank : ranks)
    if (rank.is_known && waits(rank) && !is_message(rank.activity.waiting)) {
      auto& number = furthest[rank.activity.communicator];
      number = std::max(number, rank.activity.number);
    }
  return ranks_where(ranks, [&](const RankView& rank) {
    return waits(rank) && !is_message(rank.activity.waiting) &&
           rank.activity.number < furthest[rank.activity.communicator];
  });
}

// The rank that a rank waits for in a message; none if it is in something else or takes any rank's.
std::optional<int> peer_of(std::span<const RankView> ranks, int number) {
  const Activity& activity = ranks[static_cast<std::size_t>(number)].activity;
  if (!is_message(activity.waiting) || activity.number < 0 || activity.number >= std::ssize(ranks))
    return std::nullopt;
  return static_cast<int>(activity.number);
}

// Ranks that others wait for in a message, directly or through ranks that wait in messages
// themselves, and that are in something else.
std::vector<int> ranks_owing_messages(std::span<const RankView> ranks) {
  std::set<int> found;
  for (const int first :
       ranks_where(ranks, [](const RankView& rank) { return is_message(rank.activity.waiting); })) {
    int last = first;
    // A chain that is longer than the number of ranks is a cycle.
    for (std::size_t step = 0; step < ranks.size(); ++step)
      last = peer_of(ranks, last).value_or(last);
    if (!is_message(ranks[static_cast<std::size_t>(last)].activity.waiting)) found.insert(last);
  }
  return {found.begin(), found.end()};
}

std::vector<int> find_culprits(std::span<const RankView> ranks, double silent_seconds) {
  auto found = ranks_where(ranks, [&](const RankView& rank) {
    return !has_ended(rank, silent_seconds) && (rank.silent >= silent_seconds || !waits(rank));
  });
  if (found.empty()) found = ranks_where(ranks, has_returned);
  if (found.empty()) found = ranks_behind(ranks);
  if (found.empty()) found = ranks_owing_messages(ranks);
  if (found.empty())
    found =
        ranks_where(ranks, [&](const RankView& rank) { return has_ended(rank, silent_seconds); });
  if (!found.empty()) return found;
  const std::vector<int> together = largest_meeting(ranks);
  if (together.empty()) return {};
  const auto most = meeting_of(ranks[static_cast<std::size_t>(together.front())].activity);
  return ranks_where(ranks,
                     [&](const RankView& rank) { return meeting_of(rank.activity) != most; });
}

}  // namespace

bool has_ended(const RankView& rank, double silent_seconds) {
  return rank.activity.waiting == Waiting::mpi_finalize && rank.silent >= silent_seconds;
}

void update(RankView& view, const RankActivity& seen) {
  if (view.is_known && seen.activity.moves < view.activity.moves) return;
  const bool is_new = !std::exchange(view.is_known, true);
  const bool is_let_go = view.is_traced && !seen.is_traced;
  if (is_new || is_let_go || seen.activity.moves != view.activity.moves) view.still = 0;
  if (is_new || is_let_go || seen.activity.beats != view.activity.beats) view.silent = 0;
  if (seen.stopped_launcher != view.stopped_launcher) view.launcher_still = 0;
  view.activity = seen.activity;
  view.is_traced = seen.is_traced;
  view.stopped_launcher = seen.stopped_launcher;
  view.memory = seen.memory;
}

std::vector<int> largest_meeting(std::span<const RankView> ranks, std::span<const int> without) {
  std::map<Meeting, std::vector<int>> meetings;
  for (const int rank : ranks_where(ranks, waits))
    if (std::ranges::find(without, rank) == without.end())
      meetings[meeting_of(ranks[static_cast<std::size_t>(rank)].activity)].push_back(rank);
  const auto size_of_it = [](const auto& meeting) { return meeting.second.size(); };
  const auto largest = std::ranges::max_element(meetings, {}, size_of_it);
  if (largest == meetings.end() ||
      std::ranges::count(meetings, largest->second.size(), size_of_it) > 1)
    return {};
  return largest->second;
}

std::vector<int> waiting_for(std::span<const int> culprits, std::span<const RankView> ranks) {
  std::vector<int> found;
  for (int rank = 0; rank < std::ssize(ranks); ++rank)
    if (const auto peer = peer_of(ranks, rank);
        peer && std::ranges::find(culprits, *peer) != culprits.end())
      found.push_back(rank);
  std::erase_if(found, [&](int rank) {
    const auto meeting = [&](int of) {
      return meeting_of(ranks[static_cast<std::size_t>(of)].activity);
    };
    return meeting(rank) != meeting(found.front());
  });
  return found;
}

std::optional<Stall> find_stall(std::span<const RankView> ranks, double seconds,
                                double silent_seconds) {
  Stall stall;
  stall.seconds = std::numeric_limits<double>::infinity();
  bool is_job_held_up = false, does_any_wait = false, are_all_known = true;
  for (const RankView& rank : ranks) {
    are_all_known = are_all_known && rank.is_known;
    if (!rank.is_known) continue;
    if (rank.still < seconds) return std::nullopt;
    stall.seconds = std::min(stall.seconds, rank.still);
    stall.is_debugged = stall.is_debugged || rank.is_traced;
    if (has_ended(rank, silent_seconds)) continue;
    is_job_held_up = is_job_held_up || is_held_up(rank);
    does_any_wait = does_any_wait || (waits(rank) && !has_returned(rank));
  }
  if (!is_job_held_up) return std::nullopt;
  stall.culprits = find_culprits(ranks, silent_seconds);
  const auto is_stuck = [&](int number) {
    const RankView& rank = ranks[static_cast<std::size_t>(number)];
    return !has_ended(rank, silent_seconds) && (rank.silent >= silent_seconds || !waits(rank));
  };
  stall.is_certain = are_all_known || std::ranges::any_of(stall.culprits, is_stuck);
  const auto may_work = [&](int number) {
    const RankView& rank = ranks[static_cast<std::size_t>(number)];
    return rank.silent < silent_seconds && (!does_any_wait || runs_own_code(rank));
  };
  stall.may_be_work = !stall.culprits.empty() && std::ranges::all_of(stall.culprits, may_work);
  if (!stall.is_certain) stall.culprits.clear();
  return stall;
}

std::optional<Stall> find_silence(std::span<const RankView> ranks, double seconds) {
  Stall stall;
  stall.culprits = ranks_where(ranks, [&](const RankView& rank) {
    return rank.silent >= seconds && rank.still >= seconds && !rank.is_traced &&
           rank.activity.waiting != Waiting::mpi_finalize;
  });
  if (stall.culprits.empty()) return std::nullopt;
  stall.seconds = std::numeric_limits<double>::infinity();
  for (const int rank : stall.culprits)
    stall.seconds = std::min(stall.seconds, ranks[static_cast<std::size_t>(rank)].silent);
  return stall;
}

}  // namespace tasuki
