#include "tasuki/communicator/stall_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tasuki/communicator/communicator_id.hpp"

namespace tasuki {
namespace {

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::own_work:
      return "at work of the program's own";
    case Phase::reading_data:
      return "reading and handing out data";
    case Phase::loading:
      return "loading a batch";
    case Phase::computing:
      return "computing";
    case Phase::evaluating:
      return "evaluating";
    case Phase::extension:
      return "in an extension of the trainer";
    case Phase::saving:
      return "writing a snapshot";
    case Phase::restoring:
      return "reading a snapshot";
  }
  return "at something unknown";
}

const char* name_of(Waiting kind) {
  switch (kind) {
    case Waiting::nothing:
      return "nothing";
    case Waiting::create_communicator:
      return "create_communicator";
    case Waiting::split:
      return "split";
    case Waiting::allocate:
      return "allocate";
    case Waiting::barrier:
      return "barrier";
    case Waiting::sum_gradients:
      return "sum_gradients";
    case Waiting::exchange:
      return "an exchange of gradients in the background";
    case Waiting::bcast_data:
      return "bcast_data";
    case Waiting::allreduce:
      return "allreduce";
    case Waiting::reduce:
      return "reduce";
    case Waiting::reduce_scatter:
      return "reduce_scatter";
    case Waiting::bcast:
      return "bcast";
    case Waiting::gather:
      return "gather";
    case Waiting::allgather:
      return "allgather";
    case Waiting::alltoall:
      return "alltoall";
    case Waiting::scatter:
      return "scatter";
    case Waiting::send:
      return "send to";
    case Waiting::recv:
      return "recv from";
    case Waiting::gpu:
      return "its GPU";
    case Waiting::program_end:
      return "the end of the other ranks' programs";
    case Waiting::mpi_finalize:
      return "MPI_Finalize";
  }
  return "something unknown";
}

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
    case Waiting::exchange:
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

// What comes after "is" or "was".
std::string text_of(const Activity& activity) {
  if (activity.waiting == Waiting::program_end) return "done: its program has returned";
  const std::string what = activity.waiting == Waiting::nothing
                               ? name_of(activity.phase)
                               : "waiting " + text_of_wait(activity);
  return what + place_in_training(activity);
}

std::string text_of(int number, const RankView& rank, double silent_seconds) {
  const std::string who = fmt::format("rank {} on {}", number, rank.host);
  if (rank.silent >= silent_seconds)
    return fmt::format(
        "{} gives no sign of life (it was stopped, or its machine is lost) and was last seen {}",
        who, text_of(rank.activity));
  return fmt::format("{} is {}", who, text_of(rank.activity));
}

std::string text_of_others(std::span<const RankView> ranks, std::span<const int> culprits) {
  const std::vector<int> others = largest_meeting(ranks, culprits);
  if (others.empty()) return "";
  const std::string what = text_of_wait(ranks[static_cast<std::size_t>(others.front())].activity);
  if (others.size() == 1) return fmt::format(" while rank {} waits {}", others.front(), what);
  return fmt::format(" while {} ranks wait {}", others.size(), what);
}

}  // namespace

std::string describe_stall(const Stall& stall, std::span<const RankView> ranks,
                           double silent_seconds) {
  constexpr std::size_t most_named = 4;
  std::vector<std::string> parts;
  for (const int culprit : stall.culprits) {
    if (parts.size() == most_named) {
      parts.push_back(fmt::format("{} more ranks too", stall.culprits.size() - most_named));
      break;
    }
    parts.push_back(text_of(culprit, ranks[static_cast<std::size_t>(culprit)], silent_seconds));
  }
  std::string text = fmt::format("{}", fmt::join(parts, "; "));
  if (stall.culprits.empty()) {
    const auto unknown = std::ranges::find(ranks, false, &RankView::is_known);
    if (unknown != ranks.end())
      text =
          fmt::format("nothing is known of rank {} on {}", unknown - ranks.begin(), unknown->host);
    else if (largest_meeting(ranks).size() == ranks.size())
      text = "no rank is missing, what all have begun does not end";
    else
      text = "the ranks wait for each other";
  }
  return text + text_of_others(ranks, stall.culprits);
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
                        rank.silent >= silent_seconds ? "silent, last seen " : "",
                        text_of(rank.activity));
  }
  return text;
}

}  // namespace tasuki
