#include "job/stall_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "communicator/mpi/communicator_id.hpp"

namespace tasuki {
namespace {

std::string text_of_operation(const Activity& activity) {
  const bool is_message = activity.waiting == Waiting::send || activity.waiting == Waiting::recv;
  std::string text = name_of(activity.waiting);
  if (is_message) {
    text += activity.number < 0 ? " any rank" : fmt::format(" rank {}", activity.number);
  } else if (activity.number > 0) {
    text += fmt::format(" number {}", activity.number);
  }
  if (const std::string kind = communicator_of_id(activity.communicator); !kind.empty())
    text += " of " + kind;
  if (activity.bytes > 0) text += fmt::format(" ({} bytes)", activity.bytes);
  return text;
}

std::string text_of_wait(const Activity& activity) {
  switch (activity.waiting) {
    case Waiting::gpu:
    case Waiting::program_end:
      return fmt::format("for {}", name_of(activity.waiting));
    default:
      return fmt::format("in {}", text_of_operation(activity));
  }
}

std::string place_in_training(const Activity& activity) {
  if (activity.iteration < 0) return "";
  return fmt::format(" (epoch {}, iteration {})", activity.epoch, activity.iteration);
}

// "3.1 GiB"; "-" if it is unknown.
std::string text_of_memory(std::int64_t bytes) {
  constexpr double mebibyte = 1 << 20, gibibyte = 1 << 30;
  const auto size = static_cast<double>(bytes);
  if (bytes == 0) return "-";
  return size < gibibyte ? fmt::format("{:.0f} MiB", size / mebibyte)
                         : fmt::format("{:.1f} GiB", size / gibibyte);
}

std::string text_of_number(std::int64_t number) {
  return number < 0 ? "-" : std::to_string(number);
}

// What precedes the state of a rank in a table.
const char* text_of_contact(const RankView& rank, double silent_seconds) {
  if (rank.is_traced) return "in a debugger, last seen ";
  return rank.silent >= silent_seconds ? "silent, last seen " : "";
}

// The state of a rank, to follow "is" or "was".
std::string text_of(const Activity& activity) {
  if (activity.waiting == Waiting::program_end) return "done: its program has returned";
  const std::string what = activity.waiting == Waiting::nothing
                               ? name_of(activity.phase)
                               : "waiting " + text_of_wait(activity);
  return what + place_in_training(activity);
}

std::string text_of(int number, const RankView& rank, double silent_seconds) {
  const std::string who = fmt::format("rank {} on {}", number, rank.host);
  if (rank.is_traced && rank.silent >= silent_seconds)
    return fmt::format("{} is stopped by a debugger and was last seen {}", who,
                       text_of(rank.activity));
  if (has_ended(rank, silent_seconds))
    return fmt::format("{} has ended its JobGuard, or its program", who);
  if (rank.silent >= silent_seconds)
    return fmt::format(
        "{} gives no sign of life (it was stopped, or its machine is lost) and was last seen {}",
        who, text_of(rank.activity));
  return fmt::format("{} is {}", who, text_of(rank.activity));
}

// For several ranks of one host, none of which gives a sign of life; empty if they are not.
std::string text_of_silent_host(std::span<const int> culprits, std::span<const RankView> ranks,
                                double silent_seconds) {
  if (culprits.size() < 2) return "";
  const RankView& first = ranks[static_cast<std::size_t>(culprits.front())];
  const bool is_one_host = std::ranges::all_of(culprits, [&](int culprit) {
    const RankView& rank = ranks[static_cast<std::size_t>(culprit)];
    return rank.host == first.host && rank.silent >= silent_seconds && !rank.is_traced &&
           !has_ended(rank, silent_seconds);
  });
  if (!is_one_host) return "";
  constexpr std::size_t most_named = 8;
  return fmt::format(
      "ranks {}{} on {} give no sign of life (they were stopped, or their machine is lost); rank "
      "{} was last seen {}",
      fmt::join(culprits.first(std::min(culprits.size(), most_named)), ", "),
      culprits.size() > most_named ? ", ..." : "", first.host, culprits.front(),
      text_of(first.activity));
}

// "3 ranks wait in ..." of those who wait in a message for the ranks that are named already, else
// of the operation in which most others wait; empty if there is neither.
std::string text_of_waiting(std::span<const RankView> ranks, std::span<const int> named) {
  std::vector<int> others = waiting_for(named, ranks);
  if (others.empty()) others = largest_meeting(ranks, named);
  if (others.empty()) return "";
  const std::string what = text_of_wait(ranks[static_cast<std::size_t>(others.front())].activity);
  if (others.size() == 1) return fmt::format("rank {} waits {}", others.front(), what);
  return fmt::format("{} ranks wait {}", others.size(), what);
}

std::string text_of_culprits(std::span<const int> culprits, std::span<const RankView> ranks,
                             double silent_seconds) {
  if (std::string host = text_of_silent_host(culprits, ranks, silent_seconds); !host.empty())
    return host;
  constexpr std::size_t most_named = 4;
  std::vector<std::string> parts;
  for (const int culprit : culprits.first(std::min(culprits.size(), most_named)))
    parts.push_back(text_of(culprit, ranks[static_cast<std::size_t>(culprit)], silent_seconds));
  if (culprits.size() > most_named)
    parts.push_back(fmt::format("{} more ranks too", culprits.size() - most_named));
  return fmt::format("{}", fmt::join(parts, "; "));
}

// The text if there are no culprits.
std::string text_of_deadlock(std::span<const RankView> ranks) {
  const auto unknown = std::ranges::find(ranks, false, &RankView::is_known);
  if (unknown != ranks.end())
    return fmt::format("nothing is known about rank {} on {}", unknown - ranks.begin(),
                       unknown->host);
  if (largest_meeting(ranks).size() == ranks.size()) return "no rank is missing";
  return "the ranks wait for each other";
}

}  // namespace

std::string describe_stall(const Stall& stall, std::span<const RankView> ranks,
                           double silent_seconds) {
  const std::string who = stall.culprits.empty()
                              ? text_of_deadlock(ranks)
                              : text_of_culprits(stall.culprits, ranks, silent_seconds);
  const std::string waiting = text_of_waiting(ranks, stall.culprits);
  return waiting.empty() ? who : who + " while " + waiting;
}

std::string stall_table(const Stall& stall, std::span<const RankView> ranks,
                        double silent_seconds) {
  constexpr std::size_t most_rows = 16;
  std::vector<int> order = stall.culprits;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (std::ranges::find(stall.culprits, static_cast<int>(rank)) == stall.culprits.end())
      order.push_back(static_cast<int>(rank));
  std::string text = "rank  host              for        state\n";
  for (std::size_t row = 0; row < order.size(); ++row) {
    if (row == most_rows) return text + fmt::format(" ...  and {} more\n", order.size() - row);
    const RankView& rank = ranks[static_cast<std::size_t>(order[row])];
    if (!rank.is_known) {
      text += fmt::format("{:>4}  {:<16}  unknown\n", order[row], rank.host);
      continue;
    }
    text += fmt::format("{:>4}  {:<16} {:>6.1f} s  {}{}\n", order[row], rank.host, rank.still,
                        text_of_contact(rank, silent_seconds), text_of(rank.activity));
  }
  return text;
}

std::string state_table(std::span<const RankView> ranks, double silent_seconds) {
  std::size_t host = 4;
  for (const RankView& rank : ranks) host = std::max(host, rank.host.size());
  std::string text = fmt::format("{:>4}  {:<{}}  {:>5}  {:>9}  {:>8}  {:>10}  {}\n", "rank", "host",
                                 host, "epoch", "iteration", "memory", "for", "state");
  for (std::size_t number = 0; number < ranks.size(); ++number) {
    const RankView& rank = ranks[number];
    text += fmt::format("{:>4}  {:<{}}  ", number, rank.host, host);
    if (!rank.is_known) {
      text += fmt::format("{:>5}  {:>9}  {:>8}  {:>10}  unknown\n", "-", "-", "-", "-");
      continue;
    }
    const Activity& now = rank.activity;
    const bool is_waiting = now.waiting != Waiting::nothing;
    text += fmt::format("{:>5}  {:>9}  {:>8}  {:>8.1f} s  {}{}{}\n", text_of_number(now.epoch),
                        text_of_number(now.iteration), text_of_memory(rank.memory), rank.still,
                        text_of_contact(rank, silent_seconds), name_of(now.phase),
                        is_waiting ? ", waiting " + text_of_wait(now) : "");
  }
  return text;
}

}  // namespace tasuki
