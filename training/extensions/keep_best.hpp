// keep_best: the snapshot of the iteration in which a value was best.
#pragma once

#include <memory>
#include <string>

#include "tasuki/training/extension.hpp"
#include "tasuki/training/snapshots/replica_set.hpp"

namespace tasuki {

// Saves snapshot_best (best_snapshot_name) in the output folder whenever the mean of `key` since
// the last check, over all ranks, is better than all those before: larger, if the key has
// "accuracy" in it, else smaller. A check before which the value was not observed is left out; a
// key that nothing observes is a usage error (watched_value.hpp).
//
// Attach it before other snapshots: those of the same iteration then know of its value. The best
// value is that of the file: it is forgotten if a run is resumed in a folder without the file, and
// a file that cannot be written (a warning) does not count.
//
// With replica sets, each saves a file with its suffix, as create_multi_node_snapshot() does.
std::unique_ptr<Extension> keep_best(std::string key,
                                     std::unique_ptr<Trigger> check = every(1, Unit::epoch),
                                     std::shared_ptr<const ReplicaSet> replicas = nullptr);

}  // namespace tasuki
