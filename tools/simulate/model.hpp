// Predicts the time of a training step on p ranks from the times of its parts on few ranks. Pure
// functions; docs/scaling.md explains the model and compares it with measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "communicator/algorithms/algorithm_cost.hpp"

namespace tasuki::simulate {

// Gradients that travel together.
struct GradientRange {
  double bytes = 0;  // on the wire
  double ready = 0;  // seconds after the beginning of the backward pass
};

// A step of one rank. Times in seconds.
struct Workload {
  double input = 0, forward = 0, backward = 0, update = 0;
  double jitter = 0;                    // standard deviation of a rank's input + forward + backward
  std::vector<GradientRange> ranges{};  // in the order of exchange
  double compute() const { return input + forward + backward; }
};

struct Cluster {
  int ranks_per_node = 1;
  Link between{};  // two nodes; the ranks of a node share it
  Link inside{};   // two ranks of a node
  // true: ranks of a node add up their gradients, which then travel once for each node (the
  // communicators hierarchical and two_dimensional); false: one allreduce over all ranks (flat).
  bool is_hierarchical = true;
  std::optional<AllreduceAlgorithm> algorithm{};  // empty: the fastest for each range
};

// Nodes that exchange their weights every few steps (optimizer/local_steps.hpp).
struct LocalSync {
  int every = 1;  // steps
  bool overlaps = false;
};

// Of a step; with LocalSync the mean of all steps.
struct Prediction {
  double step = 0;      // seconds
  double exchange = 0;  // of all ranges, without other work
  double exposed = 0;   // the part after the slowest rank's backward pass
  double waiting = 0;   // for the slowest rank, on average
};

// The expected largest of `count` independent standard normal numbers: the integral of 1 -
// Phi(x)^count over x > 0 minus the integral of Phi(x)^count over x < 0. count >= 1.
double expected_maximum(double count);

// The time of an allreduce of `bytes` over `ranks`: by a ring inside each node, then between nodes;
// ranks that share a node's link share its rate. If `ranks` are not a multiple of ranks_per_node,
// the last node has fewer.
double exchange_seconds(double bytes, int ranks, const Cluster& cluster);

// The end of the last range's exchange, in seconds from the beginning of the backward pass. Each
// range begins when it is ready and the previous one has ended. Unless `overlaps`, the first begins
// when the backward pass has ended.
double end_of_exchange(const Workload& workload, int ranks, const Cluster& cluster, bool overlaps);

// step = input + forward + jitter * expected_maximum(ranks)
//        + max(backward, end_of_exchange) + update; of one rank: without exchange and jitter.
Prediction predict(const Workload& workload, int ranks, const Cluster& cluster, bool overlaps);

// A step inside a node as predict() says, and every `sync.every` steps an allreduce of all bytes
// over all ranks, of which as many steps can hide a part with `sync.overlaps`. Nodes wait for the
// slowest at a synchronisation: the deviation of a node's sum of H steps is sqrt(H) times a step's.
Prediction predict_local(const Workload& workload, int ranks, const Cluster& cluster, bool overlaps,
                         const LocalSync& sync);

// The same step with a batch `factor` times as large: input, forward, backward, and the times at
// which ranges are ready, grow by this factor, and jitter in proportion.
Workload with_batch(const Workload& workload, double factor);

// The same step with a backward pass that takes `seconds` longer (recomputation); ranges are ready
// at the same part of it.
Workload with_recompute(const Workload& workload, double seconds);
// The same step in `passes` of equal size (--accumulate): gradients travel during the last one.
Workload with_passes(const Workload& workload, std::int64_t passes);

// What travels if ranks divide optimizer states.
struct Shards {
  double weight_bytes = 0;
  // The step is computed in so many passes, each of which exchanges its gradients by itself, as
  // ranks that divide gradients do.
  std::int64_t exchanged_passes = 1;
};
// A step in which ranks divide states, as predict() says, except that each range travels as half of
// an allreduce (a reduce-scatter), a machine updates its share of the weights, and weights travel
// as the other half, which nothing hides.
Prediction predict_sharded(const Workload& workload, int ranks, const Cluster& cluster,
                           bool overlaps, const Shards& shards);

}  // namespace tasuki::simulate
