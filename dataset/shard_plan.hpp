// ShardPlan: each rank's part of a data set, and the number of examples in each step. Pure
// arithmetic on (examples, ranks, shards, global batch), so that every rank knows the plan of all
// ranks without messages.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/range.hpp"

namespace tasuki {

// Part `i` of n positions dealt to `parts`: part_of() in core/range.hpp, or, with equal lengths
// (ChainerMN's default), ceil(n / parts) positions from floor(n i / parts) on, so that neighbours
// share positions if parts does not divide n.
Range part_of(std::int64_t n, std::int64_t parts, std::int64_t i, bool equal_length);

// The data set is dealt to shards, and each rank owns the same number of neighbouring shards. By
// default there is one shard per rank. With a fixed number of shards, a multiple of the number of
// ranks ("virtual shards"), batches do not depend on the number of ranks: a shard alone determines
// which of its examples are in a global batch, and the order within a shard is a function of (seed,
// epoch, shard), which ShareIterator computes (iterators/share_iterator.cpp).
//
// Every step takes `global_batch` examples; the last one of an epoch takes the rest. After t steps
// each shard has contributed its part of t * global_batch examples (part_of). If the number of
// shards does not divide the global batch, shards differ by one in a step and take turns in
// contributing more. No example is left out or repeated in an epoch, unless equal lengths were
// asked for.
class ShardPlan {
 public:
  // `shards` 0: one per rank. An error of kind config if ranks do not divide shards.
  explicit ShardPlan(std::int64_t examples, int ranks = 1, int shards = 0,
                     bool equal_length = false);

  std::int64_t examples() const { return examples_; }
  int ranks() const { return ranks_; }
  int shards() const { return shards_; }
  bool equal_length() const { return equal_length_; }

  // Positions of a shard in the order of dealing.
  Range shard(int index) const { return part_of(examples_, shards_, index, equal_length_); }
  int shards_per_rank() const { return shards_ / ranks_; }
  int first_shard(int rank) const { return rank * shards_per_rank(); }
  // Number of examples of all shards of a rank.
  std::int64_t share_size(int rank) const;
  // The first of a shard's examples among its rank's examples.
  std::int64_t offset_in_share(int shard) const;
  // Shards that contain a position; more than one only with equal lengths.
  Range shards_with(std::int64_t position) const;

  // The positions of a shard, counted from its beginning, that a step uses.
  Range shard_batch(int index, std::int64_t step, std::int64_t global_batch) const;
  // ceil(examples / global batch); 0 for an empty data set.
  std::int64_t steps_per_epoch(std::int64_t global_batch) const;
  // Examples of a step on all ranks together.
  std::int64_t global_size(std::int64_t step, std::int64_t global_batch) const;

 private:
  // Number of examples of all shards together.
  std::int64_t dealt() const;
  // The number of them that the first `steps` steps use.
  std::int64_t dealt_after(std::int64_t steps, std::int64_t global_batch) const;

  std::int64_t examples_;
  int ranks_, shards_;
  bool equal_length_;
};

// The example at each position of the order of dealing: 0 .. n-1, or with `shuffle` a permutation
// that depends only on (n, seed).
class DealingOrder {
 public:
  DealingOrder(std::int64_t n, bool shuffle, std::uint64_t seed);
  std::int64_t example_at(std::int64_t position) const {
    return order_.empty() ? position : order_[static_cast<std::size_t>(position)];
  }
  // The position of each example; empty if it equals the example's number.
  std::vector<std::int64_t> positions() const;

 private:
  std::vector<std::int64_t> order_;  // empty: not shuffled
};

}  // namespace tasuki
