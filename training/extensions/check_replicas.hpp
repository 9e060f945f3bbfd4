// check_replicas: finds ranks whose weights differ from the others'.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "training/extension.hpp"

namespace tasuki {

// Compares hashes (XXH3) of the weights, and of the optimizer's states where every rank has all of
// them, over the ranks that must have the same (Updater::replicas): before the first iteration,
// every `iterations`, before each checkpoint or snapshot, and at the end. Ranks compute each update
// for themselves, so that a bit that flips in the memory of one of them stays there, and spoils
// what the others learn. Weights are always compared whole; of the states a 16th every `iterations`
// (replica_hash.hpp), so that a state that differs is found after 16 times as many, and whole at
// the other moments.
//
// A difference is an error on all ranks (ErrorKind::disagreement). It names the ranks and hosts
// that deviate from the majority, or all of them if there is none, the first parameter that
// differs, and the iterations between which it happened; no checkpoint or snapshot contains it.
//
// Ranks that share one copy of the weights (SharedWeights) cannot deviate from each other, so
// copies are compared, of which each rank reads a part; if there is only one, nothing is read, and
// there is a warning before the first iteration. Where a model is on several ranks, those with the
// same part compare themselves, and an error is one of all ranks. Running statistics differ between
// ranks and are not compared. Ranks that exchange no gradients (`dummy`) are a usage error.
//
// A comparison reads the weights of a copy and a 16th of its states once, and sends 16 bytes for
// each rank in one allreduce.
std::unique_ptr<Extension> check_replicas(std::int64_t iterations);

// How copies of the weights compare. `hashes`: one for each rank; `holders[r]` is the lowest rank
// that reads the same copy as rank r.
struct ReplicaComparison {
  // Ranks in ascending order; empty: all are equal. The ranks that deviate from the majority, or
  // all ranks if there is none.
  std::vector<int> deviating = {};
  bool has_majority = true;  // more than half of the copies have the same hash
};
ReplicaComparison compare_replicas(std::span<const std::uint64_t> hashes,
                                   std::span<const int> holders);

}  // namespace tasuki
