// The cost of an allreduce: steps and bytes of each algorithm, and the predicted time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "communicator/algorithms/allreduce_algorithm.hpp"
#include "communicator/topology.hpp"

namespace tasuki {

// The cost on the rank with the most work.
struct AllreduceCost {
  double steps = 0;  // messages, each of which waits for the previous one
  double bytes = 0;  // sent or received, whichever is more
};

// `bytes` is the length of the vector as it travels. If an algorithm divides the vector into
// chunks, all chunks of a step count as one message, because they follow each other without a
// pause. MPI_Allreduce gets the cost of halving_doubling, which most libraries use.
AllreduceCost cost_of(AllreduceAlgorithm algorithm, double bytes, int ranks);

// The cost of a reduce-scatter (plan_reduce_scatter) in which rank r gets bytes[r] bytes.
AllreduceCost cost_of_scatter(AllreduceAlgorithm algorithm, std::span<const double> bytes);

// A connection between two ranks, as each of them sees it.
struct Link {
  double latency = 0;           // seconds that a short message takes
  double bytes_per_second = 0;  // in each direction
};
inline constexpr Link gigabit_ethernet{.latency = 50e-6, .bytes_per_second = 118e6};
inline constexpr Link shared_memory_messages{.latency = 1e-6, .bytes_per_second = 4e9};

// What connects the ranks of an allreduce.
struct Network {
  // Nodes of one rank each. Implicit, because such a network is nothing but a link.
  Network(const Link& link) : between(link) {}  // NOLINT(google-explicit-constructor)

  std::optional<Link> between;   // two nodes; empty: all ranks are on one node
  std::optional<Link> inside{};  // two ranks of a node; empty: every node has one rank
  // The number of ranks of a node that send to other nodes at the same time and share its link, on
  // the node with most of them: with `ring`, and with all other algorithms.
  int senders_of_ring = 1, senders = 1;
};
// The network of all ranks of a job. A ring connects each rank to the next.
Network network_of(const Topology& topology, const Link& between, const Link& inside);

// steps * latency + bytes / rate (Hockney's model). Messages inside nodes and between nodes travel
// at the same time, so the slower ones count. Ignores the time of additions.
double predicted_seconds(AllreduceAlgorithm algorithm, const AllreduceCost& cost,
                         const Network& network);
double predicted_seconds(AllreduceAlgorithm algorithm, double bytes, int ranks,
                         const Network& network);

// The algorithm with the least predicted time; never mpi, because its results may differ between
// ranks.
AllreduceAlgorithm fastest_algorithm(double bytes, int ranks, const Network& network);
// The fastest algorithm for a reduce-scatter.
AllreduceAlgorithm fastest_scatter(std::span<const double> bytes, const Network& network);

}  // namespace tasuki
