// Scatters a data set over ranks.
#pragma once

#include <cstdint>
#include <memory>

#include "communicator/communicator.hpp"
#include "dataset/data_source.hpp"
#include "dataset/shard_plan.hpp"

namespace tasuki {

// A rank's part of a data set, with what describes the whole. Local examples are ordered by the
// rank's shards.
struct Share {
  std::shared_ptr<const Dataset> dataset;
  ShardPlan plan;
  int rank = 0;  // the index of this share in `plan`
  // Hash of the targets of the whole data set as stored, in order, or of all its fields if it has
  // no targets; 0 if it was not scattered.
  std::uint64_t labels_hash = 0;

  // The share of a process that has the whole data set.
  static Share whole(std::shared_ptr<const Dataset> dataset);
};

struct ScatterOptions {
  int root = 0;
  // Shuffles the examples by `seed` before they are divided into shards.
  bool shuffle = false;
  std::uint64_t seed = 0;
  // Repeats examples so that all shards have the same length (ChainerMN's way). Do not use
  // it for evaluation: repeated examples would count twice.
  bool force_equal_length = false;
  int shards = 0;  // virtual shards (shard_plan.hpp); 0: one per share
  // The number of consecutive ranks that get the same share, a divisor of the number of ranks; for
  // model parallelism, the ranks that hold one model together.
  int ranks_per_share = 1;
};

// Gives every rank its share. The root reads its source once, in blocks of about a mebibyte (at
// least one example), and sends each rank its examples as stored (images as files). Besides its
// share, a rank holds only buffers of about a block's size; with `shuffle`, the root also holds 8
// bytes per example. Collective, with the same options on all ranks; only the root's source is used
// (elsewhere `open` may be empty).
//
// If the root fails to open or read the source, all ranks throw the error at once
// (ErrorScope::every_rank).
Share scatter_dataset(const OpenSource& open, Communicator& communicator,
                      const ScatterOptions& options = {});
// Scatters a data set in the root's memory; elsewhere `dataset` may be null. A data set that
// transforms its examples is a usage error: scatter the original one, and transform each rank's
// share (transform.hpp).
Share scatter_dataset(const Dataset* dataset, Communicator& communicator,
                      const ScatterOptions& options = {});

// If every rank has the whole data set: the share that scatter_dataset() would give, as a view and
// without communication. `ranks` is the number of shares and `rank` the index of the share to take;
// ScatterOptions::ranks_per_share is ignored.
Share take_share(std::shared_ptr<const Dataset> dataset, int ranks, int rank,
                 const ScatterOptions& options = {});

// The header of the root's source, on all ranks; no example is read. Collective.
DatasetHeader broadcast_header(const OpenSource& open, Communicator& communicator, int root = 0);

// This rank's range when [0, n) is divided among the ranks; only the root's `n` counts. Collective.
Range scatter_index(std::int64_t n, Communicator& communicator, int root = 0,
                    bool force_equal_length = false);

}  // namespace tasuki
