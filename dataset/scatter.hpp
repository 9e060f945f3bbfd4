// Handing a data set out to ranks.
#pragma once

#include <cstdint>
#include <memory>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/dataset/shard_plan.hpp"
#include "tasuki/dataset/source.hpp"

namespace tasuki {

// What one rank has of a data set, and what all others have. Local example i lies in the rank's
// shards one after the other.
struct Share {
  std::shared_ptr<const Dataset> dataset;
  ShardPlan plan;
  int rank = 0;
  // Of the targets of the whole data set as stored, in order, or of all its fields where it has
  // none; 0 where it was not scattered.
  std::uint64_t labels_hash = 0;

  // A data set that one process has all of.
  static Share whole(std::shared_ptr<const Dataset> dataset);
};

struct ScatterOptions {
  int root = 0;
  // Deals a permutation (of seed) instead of the examples in order.
  bool shuffle = false;
  std::uint64_t seed = 0;
  // Repeats examples so that all shards are of one length (ChainerMN's way). Never for evaluation.
  bool force_equal_length = false;
  int shards = 0;  // virtual shards (shard_plan.hpp); 0: one per rank
};

// Gives every rank its share. The root reads its source once, a mebibyte at a time, and sends each
// rank its own examples as stored (images as files); no rank ever holds more than its share and one
// such piece. Collective, with the same options on all ranks; only the root's source counts (null
// or not callable elsewhere).
//
// What goes wrong at the root while the source is opened or read is met by all ranks at once, as
// the same error (ErrorScope::every_rank), wherever in the file it is.
Share scatter_dataset(const OpenSource& open, Communicator& communicator,
                      const ScatterOptions& options = {});
// The same for a data set that the root has in memory; null elsewhere. One that transforms its
// examples is a usage error: scatter the one below it, and transform each rank's share
// (transform.hpp).
Share scatter_dataset(const Dataset* dataset, Communicator& communicator,
                      const ScatterOptions& options = {});

// The same share without communication, where every rank can reach the whole data set: a view.
Share take_share(std::shared_ptr<const Dataset> dataset, int ranks, int rank,
                 const ScatterOptions& options = {});

// Header of the root's source, on all ranks; no example is read. Collective.
DatasetHeader broadcast_header(const OpenSource& open, Communicator& communicator, int root = 0);

// Positions of this rank when the root's n examples are dealt. Collective.
Range scatter_index(std::int64_t n, Communicator& communicator, int root = 0,
                    bool force_equal_length = false);

}  // namespace tasuki
