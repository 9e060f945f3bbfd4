#include "communicator/algorithms/allreduce_outcomes.hpp"

#include <algorithm>

#include "core/log.hpp"

namespace tasuki {

void AllreduceOutcomes::add(const Outcome& expected, double seconds) {
  const auto& [operation, algorithm, ranks, bytes, predicted] = expected;
  constexpr double least_bytes = 64 << 10;
  constexpr std::size_t most_lengths = 3, wanted = 10;
  const auto found = seconds_.find(bytes);
  if (bytes < least_bytes || (found == seconds_.end() && seconds_.size() == most_lengths)) return;
  std::vector<double>& times = seconds_[bytes];
  if (times.size() == wanted) return;
  times.push_back(seconds);
  if (times.size() < wanted) return;
  std::vector<double> sorted = times;
  std::ranges::sort(sorted);
  log_verbose(
      "{} of {:.0f} bytes among {} by {}: predicted {:.2f} ms, took {:.2f} ms (median of {})",
      operation, bytes, ranks, name_of(algorithm), 1e3 * predicted, 1e3 * sorted[wanted / 2],
      wanted);
}

}  // namespace tasuki
