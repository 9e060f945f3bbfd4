// ReproducibleLoop: steps with the same bits on any number of ranks, for a training loop of your
// own (docs/reproducibility.md). Programs with flags have --reproducible.
#pragma once

#include <cstdint>

#include "dataset/iterators/share_iterator.hpp"
#include "dataset/scatter.hpp"
#include "optimizer/optimizer.hpp"
#include "training/batch_updater.hpp"
#include "training/observation.hpp"
#include "training/updater.hpp"

namespace tasuki {

// A loop makes its optimizer's steps through this object, from batches that batches() describes, of
// shares that scatter() describes:
//   ReproducibleLoop steps(*optimizer, {.shards = 24, .seed = 1});
//   optimizer->setup(model);
//   ShareIterator batches(scatter_dataset(data, *communicator, steps.scatter()),
//                         steps.batches(/*global_batch=*/96));
//   Observation seen;
//   steps.update(batches.next(), loss, seen);
// An Evaluator whose iterator has batches() with `repeat` and `shuffle` false has the same values
// on any number of ranks, too.
class ReproducibleLoop {
 public:
  struct Settings {
    // A multiple of the number of ranks, on which the bits depend.
    std::int64_t shards = 24;
    // Of the order of examples, dropout and other random functions.
    std::uint64_t seed = 0;
  };
  // Before the optimizer's setup(), and before anything is computed: from now on this process
  // computes with one thread and chooses convolutions by a table. The optimizer outlives this
  // object. A usage error on all ranks if they do not divide the shards.
  ReproducibleLoop(Optimizer& optimizer, const Settings& settings);

  ScatterOptions scatter() const;
  // Of training: shuffled, without an end. `global_batch`: the examples of a step on all ranks.
  ShareIteratorOptions batches(std::int64_t global_batch) const;

  // A step: forward and backward pass of each shard, exchange and update. Adds the loss and what
  // `loss` reports to `seen`: this rank's part (Observation::over_ranks). Collective. A usage error
  // if the batch does not say which examples are of which shard.
  void update(const Batch& batch, const LossFunction& loss, Observation& seen);

 private:
  Optimizer& optimizer_;
  Settings settings_;
  RandomKeysOfBatches random_;  // of each shard
};

}  // namespace tasuki
