// What an allreduce costs: steps and bytes of each algorithm, and the time that they predict.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tasuki/communicator/algorithms/allreduce_algorithm.hpp"
#include "tasuki/communicator/topology.hpp"

namespace tasuki {

// Of one rank, where one message after the other is waited for.
struct AllreduceCost {
  double steps = 0;
  double bytes = 0;  // sent, or received if those are more
};

// `bytes` is the length of the vector as it travels. Where an algorithm cuts the vector into
// chunks, all chunks of a step count as one message, because they follow each other without a
// pause. For MPI_Allreduce the cost is that of halving_doubling, which most libraries use.
AllreduceCost cost_of(AllreduceAlgorithm algorithm, double bytes, int ranks);

// The same of a reduce-scatter of so many bytes to each rank (plan_reduce_scatter).
AllreduceCost cost_of_scatter(AllreduceAlgorithm algorithm, std::span<const double> bytes);

// A connection between two ranks, as each of them sees it.
struct Link {
  double latency = 0;           // seconds of a short message
  double bytes_per_second = 0;  // in each direction
};
inline constexpr Link gigabit_ethernet{.latency = 50e-6, .bytes_per_second = 118e6};
inline constexpr Link shared_memory_messages{.latency = 1e-6, .bytes_per_second = 4e9};

// What connects the ranks of an allreduce.
struct Network {
  Network(const Link& link)
      : between(link) {}  // NOLINT(google-explicit-constructor): each by itself

  std::optional<Link> between;   // nodes; empty: all ranks are on one
  std::optional<Link> inside{};  // two ranks of a node; empty: there are none
  // Ranks of the busiest node that send to other nodes at the same time, sharing its link.
  int senders = 1, senders_of_ring = 1;
};
// Of all ranks, of which a ring connects each to the next.
Network network_of(const Topology& topology, const Link& between, const Link& inside);

// Latency for each step, and the bytes at the link's rate (Hockney's model). Where ranks exchange
// messages inside nodes and between them, these go on at the same time, and the slower ones count.
// Additions are not counted.
double predicted_seconds(AllreduceAlgorithm algorithm, const AllreduceCost& cost,
                         const Network& network);
double predicted_seconds(AllreduceAlgorithm algorithm, double bytes, int ranks,
                         const Network& network);

// The fastest but mpi, whose results may differ between ranks.
AllreduceAlgorithm fastest_algorithm(double bytes, int ranks, const Network& network);
// Of a reduce-scatter.
AllreduceAlgorithm fastest_scatter(std::span<const double> bytes, const Network& network);

}  // namespace tasuki
