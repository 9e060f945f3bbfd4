// What an allreduce costs: steps and bytes of each algorithm, and the time that they predict.
#pragma once

#include <cstdint>
#include <span>

#include "tasuki/communicator/algorithms/allreduce_algorithm.hpp"

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

// Latency for each step, and the bytes at the link's rate (Hockney's model). Additions are not
// counted, nor other ranks that use the link at the same time.
double predicted_seconds(const AllreduceCost& cost, const Link& link);
double predicted_seconds(AllreduceAlgorithm algorithm, double bytes, int ranks, const Link& link);

// The fastest but mpi, whose results may differ between ranks.
AllreduceAlgorithm fastest_algorithm(double bytes, int ranks, const Link& link);
// Of a reduce-scatter.
AllreduceAlgorithm fastest_scatter(std::span<const double> bytes, const Link& link);

}  // namespace tasuki
