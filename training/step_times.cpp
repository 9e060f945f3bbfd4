#include "tasuki/training/step_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tasuki {
namespace {

std::string row(std::size_t rank, const StepTimes& times) {
  std::string text = fmt::format("{:>4}", rank);
  const auto steps = static_cast<double>(times.steps);
  for (const double seconds : {times.input, times.compute, times.communication})
    text += fmt::format("  {:>9.2f} ms {:>5.1f} %", 1e3 * seconds / steps,
                        100 * seconds / std::max(times.total(), 1e-12));
  return text + '\n';
}

}  // namespace

std::vector<StepTimes> gather_step_times(const StepTimes& own, Communicator* communicator) {
  if (communicator == nullptr) return {own};
  std::vector<StepTimes> all;
  for (const Bytes& bytes : communicator->allgather_bytes(std::as_bytes(std::span(&own, 1)))) {
    TASUKI_CHECK(bytes.size() == sizeof(StepTimes), "times of {} bytes", bytes.size());
    std::memcpy(&all.emplace_back(), bytes.data(), bytes.size());
  }
  return all;
}

std::string step_time_table(const std::vector<StepTimes>& ranks) {
  constexpr std::size_t most_ranks_shown = 64;
  if (std::ranges::any_of(ranks, [](const StepTimes& times) { return times.steps == 0; }))
    return "";
  std::string text = "rank  input wait            compute               communication (a step)\n";
  const std::size_t shown = std::min(ranks.size(), most_ranks_shown);
  for (std::size_t rank = 0; rank < shown; ++rank) text += row(rank, ranks[rank]);
  if (shown == ranks.size()) return text;

  // Whoever keeps the others waiting waits least for them.
  const auto slowest = std::min_element(
      ranks.begin() + static_cast<std::ptrdiff_t>(shown), ranks.end(),
      [](const StepTimes& a, const StepTimes& b) { return a.communication < b.communication; });
  text += fmt::format(" ...  of {} more ranks the slowest:\n", ranks.size() - shown);
  return text + row(static_cast<std::size_t>(slowest - ranks.begin()), *slowest);
}

}  // namespace tasuki
