// check_replicas: finds ranks whose weights are not those of the others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tasuki/training/extension.hpp"

namespace tasuki {

// Compares hashes (XXH3) of the weights, and of the optimizer's states where every rank has all of
// them, over the ranks that must have the same (Updater::replicas): before the first iteration,
// every `iterations`, and before each snapshot. Ranks compute each update for themselves, so that a
// bit that flips in the memory of one of them stays there, and spoils what the others learn.
//
// A difference is an error on all ranks (ErrorKind::disagreement). It names the ranks and hosts
// that deviate from the majority, or all of them if there is none, the first parameter that
// differs, and the iterations between which it happened; no snapshot contains it.
//
// Ranks that share one copy of the weights (Optimizer::share_weights) cannot deviate from each
// other, so copies are compared; if there is only one, there is a warning before the first
// iteration. Running statistics are those of each rank and are not compared. Ranks that exchange no
// gradients (`dummy`) are a usage error.
//
// A comparison reads all weights and states once and sends one small message.
std::unique_ptr<Extension> check_replicas(std::int64_t iterations);

// How copies of the weights compare. `hashes` are those of all ranks; `holders[r]` is the lowest
// rank that reads the same copy as rank r.
struct ReplicaComparison {
  // Ranks in ascending order; empty: all are equal. With a majority, those that deviate from it,
  // otherwise all ranks.
  std::vector<int> deviating = {};
  bool has_majority = true;  // more than half of the copies have the same hash
};
ReplicaComparison compare_replicas(std::span<const std::uint64_t> hashes,
                                   std::span<const int> holders);

}  // namespace tasuki
