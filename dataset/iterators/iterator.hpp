// Iterator: chooses the examples of each batch of each epoch. share_iterator.hpp iterates over a
// rank's share, prefetch_iterator.hpp reads ahead, multi_node_iterator.hpp gives all ranks the same
// batches.
#pragma once

#include <cstdint>

#include "dataset/batch.hpp"

namespace tasuki {

// The position of an iterator. Together with the iterator's settings it determines all batches to
// come.
struct IteratorState {
  std::int64_t epoch = 0;  // complete epochs
  std::int64_t step = 0;   // steps done in the current one
  friend bool operator==(const IteratorState&, const IteratorState&) = default;
};

// What determines the batches of an epoch. A position in the middle of an epoch is meaningful only
// with the same layout: with another layout, other examples would come before it.
struct EpochLayout {
  std::int64_t examples = 0;      // in the whole data set
  std::int64_t shards = 0;        // see shard_plan.hpp
  std::int64_t global_batch = 0;  // examples of a step on all ranks
  bool is_shuffled = false;
  std::uint64_t seed = 0;         // for the order, if shuffled
  std::int64_t bucket_steps = 0;  // LengthBuckets::steps; 0: not sorted by length
  friend bool operator==(const EpochLayout&, const EpochLayout&) = default;
};

// A stream of batches: endless, or one epoch for evaluation. An epoch has the same number of steps
// on all ranks; its last batch may be short, or empty on some ranks. In Tasuki's iterators, the
// order of examples depends only on (seed, epoch, shard). Updaters and evaluators call next() once
// in each step on every rank, in the thread that trains, so it may be collective.
//
// Your own iterator may make batches on the host or on a device, in new or in reused memory. Either
// way, steps on a GPU can be recorded: next() is called before each step, and its values are copied
// to where the recording reads them. Recording pays off if batches have few different shapes.
//
// next() runs in the thread that trains, so its time adds to a step's time. Reading ahead
// (PrefetchIterator) and data that stay in a device's memory (create_device_iterator) work with
// ShareIterators only. To use them, let your own iterator wrap the iterator that they create
// (ForwardingIterator). Long work belongs in Dataset::read() or a Transform, which loader threads
// call.
class Iterator {
 public:
  virtual ~Iterator() = default;
  // The next batch, with the number of examples of all ranks in this step (Batch::global_size) if
  // the iterator knows it; otherwise the ranks add up their sizes. For a one-epoch iterator, a call
  // after the last batch is an error. If it throws, the state does not change.
  virtual Batch next() = 0;

  virtual std::int64_t steps_per_epoch() const = 0;  // 0 if the whole data set is empty
  virtual EpochLayout layout() const = 0;

  // The position after the last batch that was returned.
  virtual IteratorState state() const = 0;
  // Moves to a position; {} is the start. An impossible one is an error of kind data.
  virtual void restore(const IteratorState& state) = 0;
  std::int64_t epoch() const { return state().epoch; }
  bool is_new_epoch() const { return state().step == 0 && state().epoch > 0; }
  double epoch_detail() const {
    const IteratorState now = state();
    const auto steps = static_cast<double>(steps_per_epoch());
    return static_cast<double>(now.epoch) + (steps > 0 ? static_cast<double>(now.step) / steps : 0);
  }
};

}  // namespace tasuki
