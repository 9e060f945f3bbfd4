// AccumulatedBatches: the batches of one iteration. Their gradients are added up, exchanged once
// and used in one update.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dataset/iterators/iterator.hpp"
#include "nn/random.hpp"
#include "tensor/late.hpp"
#include "training/recording/step_runner.hpp"

namespace tasuki {

// Random keys for each batch of an iteration, made when they are first needed.
class RandomKeysOfBatches {
 public:
  explicit RandomKeysOfBatches(std::uint64_t seed) : seed_(seed) {}
  RandomKeys& of(std::int64_t batch);

 private:
  std::uint64_t seed_;
  std::vector<std::unique_ptr<RandomKeys>> keys_;
};

class AccumulatedBatches {
 public:
  // The next `most` batches, at least 1, or those that are left in the epoch. With `most` above 1
  // they are in one StepScope, which lives as long as this object.
  AccumulatedBatches(StepRunner& runner, Iterator& iterator, RandomKeysOfBatches& keys,
                     std::int64_t most);

  // The next batch. Call it before the first batch's work, and again until is_last().
  Batch next();
  // About the batch that next() returned.
  bool is_last() const { return is_last_; }
  RandomKeys& random() { return keys_.of(taken_ - 1); }

  // About all batches so far. Their weight on all ranks (Batch::weight) is empty if a batch does
  // not know its own.
  std::optional<std::int64_t> global_weight() const {
    return is_weighted_ ? std::nullopt : global_examples_;
  }
  bool have_examples() const { return have_examples_; }  // of this rank

  // Call it after the last batch's work.
  void succeeded();

 private:
  StepRunner& runner_;
  Iterator& iterator_;
  RandomKeysOfBatches& keys_;
  std::int64_t most_, taken_ = 0;
  bool is_last_ = false, have_examples_ = false, is_weighted_ = false;
  std::optional<std::int64_t> global_examples_ = 0;
  std::optional<StepScope> all_;  // empty: the runner opens the scope of a single batch
};

}  // namespace tasuki
