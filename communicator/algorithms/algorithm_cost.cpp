#include "communicator/algorithms/algorithm_cost.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <vector>

namespace tasuki {
namespace {

template <class Seconds>
AllreduceAlgorithm fastest_by(const Seconds& seconds_of) {
  AllreduceAlgorithm fastest = AllreduceAlgorithm::ring;
  double least = std::numeric_limits<double>::infinity();
  for (const AllreduceAlgorithm each : allreduce_algorithms()) {
    if (each == AllreduceAlgorithm::mpi) continue;
    const double seconds = seconds_of(each);
    if (seconds < least) {
      least = seconds;
      fastest = each;
    }
  }
  return fastest;
}

// How many children a rank has in a binomial tree, by its distance from the root
// (plan_reduce_scatter).
int children_of(int number, int ranks) {
  int children = 0;
  for (int bit = 1; (number & bit) == 0 && number + bit < ranks; bit *= 2) ++children;
  return children;
}

}  // namespace

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

// Every rank sends all parts but its own. The algorithms differ in what a rank receives.
AllreduceCost cost_of_scatter(AllreduceAlgorithm algorithm, std::span<const double> bytes) {
  const auto ranks = static_cast<int>(bytes.size());
  if (ranks < 2) return {};
  const double all = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  AllreduceCost cost{.steps = 1, .bytes = all - std::ranges::min(bytes)};
  switch (algorithm) {
    case AllreduceAlgorithm::ring:
      cost.steps = ranks - 1;
      break;
    case AllreduceAlgorithm::halving_doubling:
    case AllreduceAlgorithm::tree:
    case AllreduceAlgorithm::mpi:
      cost.steps = std::bit_width(static_cast<unsigned>(ranks - 1));
      for (int rank = 0; rank < ranks; ++rank) {
        double received = 0;
        for (int owner = 0; owner < ranks; ++owner)
          received += children_of((rank - owner + ranks) % ranks, ranks) *
                      bytes[static_cast<std::size_t>(owner)];
        cost.bytes = std::max(cost.bytes, received);
      }
      break;
    case AllreduceAlgorithm::direct:
      cost.bytes = std::max(cost.bytes, (ranks - 1) * std::ranges::max(bytes));
      break;
  }
  return cost;
}

Network network_of(const Topology& topology, const Link& between, const Link& inside) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.inter_size), 0), leaving(ranks);
  for (std::size_t rank = 0; rank < topology.node_of.size(); ++rank) {
    const int next = topology.node_of[(rank + 1) % topology.node_of.size()];
    const auto node = static_cast<std::size_t>(topology.node_of[rank]);
    ++ranks[node];
    if (next != topology.node_of[rank]) ++leaving[node];
  }
  Network network(between);
  if (topology.inter_size == 1) network.between.reset();
  network.senders = std::ranges::max(ranks);
  network.senders_of_ring = std::ranges::max(leaving);
  if (network.senders > 1) network.inside = inside;
  return network;
}

double predicted_seconds(AllreduceAlgorithm algorithm, const AllreduceCost& cost,
                         const Network& network) {
  const bool is_ring = algorithm == AllreduceAlgorithm::ring;
  const int senders = is_ring ? network.senders_of_ring : network.senders;
  double seconds = 0;
  if (const auto& link = network.between)
    seconds = cost.steps * link->latency + cost.bytes * senders / link->bytes_per_second;
  if (const auto& link = network.inside)
    seconds = std::max(seconds, cost.steps * link->latency + cost.bytes / link->bytes_per_second);
  return seconds;
}

double predicted_seconds(AllreduceAlgorithm algorithm, double bytes, int ranks,
                         const Network& network) {
  return predicted_seconds(algorithm, cost_of(algorithm, bytes, ranks), network);
}

AllreduceAlgorithm fastest_algorithm(double bytes, int ranks, const Network& network) {
  return fastest_by(
      [&](AllreduceAlgorithm each) { return predicted_seconds(each, bytes, ranks, network); });
}

AllreduceAlgorithm fastest_scatter(std::span<const double> bytes, const Network& network) {
  return fastest_by([&](AllreduceAlgorithm each) {
    return predicted_seconds(each, cost_of_scatter(each, bytes), network);
  });
}

}  // namespace tasuki
