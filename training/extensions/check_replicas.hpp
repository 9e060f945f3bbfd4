// check_replicas: finds ranks whose weights differ from the others'.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "training/extension.hpp"

namespace tasuki {

// Compares hashes (XXH3) of the weights, and of the optimizer's states where every rank has all of
// them, over the ranks that must agree (Updater::replicas): before the first iteration, every
// `iterations`, before each checkpoint or snapshot, and at the end. Each rank computes its own
// updates, so a bit that flips in one rank's memory stays there and spoils what the others learn.
// Weights are always compared completely. Every `iterations` only a 16th of the states is compared
// (replica_hash.hpp), so a differing state is found after 16 such intervals; at the other moments
// states are compared completely.
//
// A difference is an error on all ranks (ErrorKind::disagreement). It names the ranks and hosts
// that deviate from the majority, or all of them if there is none, the first parameter that
// differs, and the iterations between which it happened; no checkpoint or snapshot contains it.
//
// Ranks that share one copy of the weights (SharedWeights) cannot deviate from each other, so
// copies are compared, and each rank reads a part of its copy; if there is only one copy, nothing
// is read, and a warning precedes the first iteration. If a model spans several ranks, ranks with
// the same part are compared, and an error is thrown on all ranks. Running statistics differ
// between ranks and are not compared. Ranks that exchange no gradients (`dummy`) are a usage error.
//
// A comparison reads the weights of a copy and a 16th of its states once, and sends 16 bytes for
// each rank in one allreduce.
std::unique_ptr<Extension> check_replicas(std::int64_t iterations);

// Compares copies of the weights. `hashes`: of all ranks; `holders[r]`: the lowest rank that reads
// the same copy as rank r.
struct ReplicaComparison {
  // Deviating ranks in ascending order; empty: all are equal. Without a majority: all ranks.
  std::vector<int> deviating = {};
  bool has_majority = true;  // more than half of the copies have the same hash
};
ReplicaComparison compare_replicas(std::span<const std::uint64_t> hashes,
                                   std::span<const int> holders);

}  // namespace tasuki
