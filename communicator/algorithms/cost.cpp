#include "tasuki/communicator/algorithms/cost.hpp"

#include <bit>
#include <limits>

namespace tasuki {

AllreduceCost cost_of(AllreduceAlgorithm algorithm, double bytes, int ranks) {
  if (ranks < 2) return {};
  const auto p = static_cast<double>(ranks);
  const auto members = std::bit_floor(static_cast<unsigned>(ranks));
  const bool is_power_of_two = members == static_cast<unsigned>(ranks);
  const auto levels = static_cast<double>(std::bit_width(members) - 1);
  const double rounded_up = is_power_of_two ? levels : levels + 1;
  switch (algorithm) {
    case AllreduceAlgorithm::ring:
      return {2 * (p - 1), 2 * (p - 1) / p * bytes};
    case AllreduceAlgorithm::halving_doubling:
    case AllreduceAlgorithm::mpi: {
      const double among_members = 2 * (1 - 1 / static_cast<double>(members)) * bytes;
      // The first of a pair also sends one half to the second, and the whole result.
      if (is_power_of_two) return {2 * levels, among_members};
      return {2 * levels + 3, among_members + 1.5 * bytes};
    }
    // The root sends to all its children.
    case AllreduceAlgorithm::tree:
      return {2 * rounded_up, rounded_up * bytes};
    case AllreduceAlgorithm::direct:
      return {1, (p - 1) * bytes};
  }
  return {};
}

double predicted_seconds(AllreduceAlgorithm algorithm, double bytes, int ranks, const Link& link) {
  const AllreduceCost cost = cost_of(algorithm, bytes, ranks);
  return cost.steps * link.latency + cost.bytes / link.bytes_per_second;
}

AllreduceAlgorithm fastest_algorithm(double bytes, int ranks, const Link& link) {
  AllreduceAlgorithm fastest = AllreduceAlgorithm::ring;
  double least = std::numeric_limits<double>::infinity();
  for (const AllreduceAlgorithm each : allreduce_algorithms()) {
    if (each == AllreduceAlgorithm::mpi) continue;
    const double seconds = predicted_seconds(each, bytes, ranks, link);
    if (seconds < least) {
      least = seconds;
      fastest = each;
    }
  }
  return fastest;
}

}  // namespace tasuki
