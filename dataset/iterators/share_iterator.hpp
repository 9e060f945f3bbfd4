// Batches of a rank's share of a data set, in order or shuffled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/iterators/iterator.hpp"
#include "dataset/scatter.hpp"

namespace tasuki {

// Batches of examples of similar length, which need little padding. The shuffled examples of
// `steps` steps are sorted by the length of a ragged field and dealt to the steps in an order that
// depends only on (seed, epoch): every example is still used once in an epoch, and all ranks have
// short or long examples in the same steps.
struct LengthBuckets {
  std::string field;
  std::int64_t steps = 1;
};

struct ShareIteratorOptions {
  std::int64_t batch_size = 1;  // per rank
  // If not 0, the examples of a step on all ranks together, instead of ranks x batch_size; ranks
  // may then differ by one example.
  std::int64_t global_batch = 0;
  // Shuffles each shard anew in each epoch, by (seed, epoch, shard).
  bool shuffle = false;
  std::uint64_t seed = 0;
  // Whether another epoch follows the first.
  bool repeat = true;
  // Whether batches say which examples are of which shard (Batch::set_shards), as steps of several
  // shards need (Optimizer::set_shards).
  bool marks_shards = false;
  // Only with `shuffle`.
  std::optional<LengthBuckets> buckets = {};
};

// A batch that is chosen but not yet read.
struct BatchPlan {
  std::vector<std::int64_t> indices;  // local examples
  std::int64_t epoch = 0;
  std::int64_t global_size = 0;      // examples of this step on all ranks
  std::vector<std::int64_t> shards;  // examples of each shard of this rank; empty: not marked
};

class ShareIterator final : public Iterator {
 public:
  // An error of kind config if the batch size is not positive.
  ShareIterator(Share share, const ShareIteratorOptions& options);

  Batch next() override;
  std::int64_t steps_per_epoch() const override { return steps_; }
  EpochLayout layout() const override {
    return {share_.plan.examples(), share_.plan.shards(),
            global_batch_,          options_.shuffle,
            options_.seed,          options_.buckets ? options_.buckets->steps : 0};
  }
  IteratorState state() const override { return state_; }
  void restore(const IteratorState& state) override;

  // next() in parts, for reading ahead: choose the next batch, advance past it, read it
  // (thread-safe).
  BatchPlan plan_next();
  void advance();
  Batch load(const BatchPlan& plan) const;

  const ShareIteratorOptions& options() const { return options_; }
  const Dataset& dataset() const { return *share_.dataset; }
  // The most examples that a batch of this rank can have.
  std::int64_t largest_batch() const;
  // Restarts with another seed.
  void reseed(std::uint64_t seed);

 private:
  bool at_end() const;
  void shuffle_for(std::int64_t epoch);
  void sort_buckets(std::int64_t epoch, int shard);

  Share share_;
  ShareIteratorOptions options_;
  std::int64_t global_batch_, steps_;
  IteratorState state_;
  // Local examples, shard by shard, each in the shard's order of this epoch.
  std::vector<std::int64_t> order_;
  std::optional<std::int64_t> order_epoch_;
  std::vector<std::size_t> lengths_;  // of local examples in bytes; with buckets
};

// One epoch in order, every example once: for evaluation.
std::unique_ptr<ShareIterator> create_serial_iterator(Share share, std::int64_t batch_size);
// Endless, shuffled: for training.
std::unique_ptr<ShareIterator> create_shuffled_iterator(Share share, std::int64_t batch_size,
                                                        std::uint64_t seed);

}  // namespace tasuki
