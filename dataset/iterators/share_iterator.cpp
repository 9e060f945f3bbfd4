#include "dataset/iterators/share_iterator.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/hash.hpp"
#include "core/philox.hpp"

namespace tasuki {
namespace {

// Order of a shard's examples in an epoch: a function of the shard's size and these numbers alone.
std::vector<std::int64_t> shuffled_shard(std::int64_t size, std::uint64_t seed, std::int64_t epoch,
                                         int shard) {
  const std::array<std::uint64_t, 3> purpose{hash_text("epoch order"),
                                             static_cast<std::uint64_t>(epoch),
                                             static_cast<std::uint64_t>(shard)};
  return permutation(size, RandomStream(seed, mix(purpose)));
}

// The stored bytes of each example's field.
std::vector<std::size_t> lengths_of(const Dataset& dataset, const std::string& name) {
  const std::size_t number = dataset.header().index_of(name);
  TASUKI_CHECK(dataset.header().fields[number].is_ragged,
               "batches of similar length need a ragged field, which '{}' is not", name);
  StoredField stored(dataset, number);
  std::vector<std::size_t> lengths;
  for (std::int64_t i = 0; i < dataset.size(); ++i) lengths.push_back(stored[i].size());
  return lengths;
}

}  // namespace

ShareIterator::ShareIterator(Share share, const ShareIteratorOptions& options)
    : share_(std::move(share)),
      options_(options),
      global_batch_(options.global_batch != 0 ? options.global_batch
                                              : options.batch_size * share_.plan.ranks()),
      steps_(share_.plan.steps_per_epoch(global_batch_)) {
  TASUKI_CHECK(share_.dataset->size() == share_.plan.share_size(share_.rank),
               "rank {} has {} examples, its plan says {}", share_.rank, share_.dataset->size(),
               share_.plan.share_size(share_.rank));
  if (!options_.buckets) return;
  TASUKI_CHECK(options_.shuffle && options_.buckets->steps >= 1,
               "batches of similar length are for shuffled examples of at least one step");
  lengths_ = lengths_of(*share_.dataset, options_.buckets->field);
}

bool ShareIterator::at_end() const {
  return steps_ == 0 || (!options_.repeat && state_.epoch > 0);
}

void ShareIterator::restore(const IteratorState& state) {
  const bool possible = state == IteratorState{} ||
                        (state.epoch >= 0 && 0 <= state.step && state.step < steps_ &&
                         (options_.repeat || state.epoch == 0 || state == IteratorState{1, 0}));
  if (!possible)
    fail_everywhere(
        ErrorKind::data,
        "cannot continue at step {} of epoch {}: expected a step below {}, the steps of "
        "an epoch of this data set and batch size",
        state.step, state.epoch, steps_);
  state_ = state;
}

void ShareIterator::reseed(std::uint64_t seed) {
  options_.seed = seed;
  order_epoch_.reset();
  state_ = {};
}

void ShareIterator::shuffle_for(std::int64_t epoch) {
  if (order_epoch_ == epoch) return;
  order_.clear();
  const ShardPlan& plan = share_.plan;
  const int first = plan.first_shard(share_.rank);
  for (int shard = first; shard < first + plan.shards_per_rank(); ++shard)
    for (const std::int64_t i :
         shuffled_shard(plan.shard(shard).size(), options_.seed, epoch, shard))
      order_.push_back(plan.offset_in_share(shard) + i);
  order_epoch_ = epoch;
  if (options_.buckets)
    for (int shard = first; shard < first + plan.shards_per_rank(); ++shard)
      sort_buckets(epoch, shard);
}

void ShareIterator::sort_buckets(std::int64_t epoch, int shard) {
  const std::int64_t offset = share_.plan.offset_in_share(shard);
  for (std::int64_t first = 0; first < steps_; first += options_.buckets->steps) {
    const std::int64_t steps = std::min(options_.buckets->steps, steps_ - first);
    const auto taken = [&](std::int64_t step) {
      const Range range = share_.plan.shard_batch(shard, first + step, global_batch_);
      return Range{offset + range.begin, offset + range.end};
    };
    const auto begin = order_.begin() + taken(0).begin, end = order_.begin() + taken(steps - 1).end;
    std::vector<std::int64_t> sorted(begin, end);
    std::ranges::stable_sort(sorted, {},
                             [&](std::int64_t i) { return lengths_[static_cast<std::size_t>(i)]; });
    const std::array<std::uint64_t, 3> purpose{hash_text("length buckets"),
                                               static_cast<std::uint64_t>(epoch),
                                               static_cast<std::uint64_t>(first)};
    auto next = sorted.begin();
    for (const std::int64_t step : permutation(steps, RandomStream(options_.seed, mix(purpose)))) {
      const Range to = taken(step);
      std::copy_n(next, to.size(), order_.begin() + to.begin);
      next += to.size();
    }
  }
}

BatchPlan ShareIterator::plan_next() {
  if (at_end()) fail(ErrorKind::internal, "no batch is left (an epoch has {})", steps_);
  if (options_.shuffle) shuffle_for(state_.epoch);
  const ShardPlan& plan = share_.plan;
  BatchPlan next{{}, state_.epoch, plan.global_size(state_.step, global_batch_), {}};
  const int first = plan.first_shard(share_.rank);
  for (int shard = first; shard < first + plan.shards_per_rank(); ++shard) {
    const std::int64_t offset = plan.offset_in_share(shard);
    const Range taken = plan.shard_batch(shard, state_.step, global_batch_);
    for (std::int64_t i = offset + taken.begin; i < offset + taken.end; ++i)
      next.indices.push_back(options_.shuffle ? order_[static_cast<std::size_t>(i)] : i);
    if (options_.marks_shards) next.shards.push_back(taken.size());
  }
  return next;
}

std::int64_t ShareIterator::largest_batch() const {
  const std::int64_t shards = share_.plan.shards();
  return share_.plan.shards_per_rank() * ((global_batch_ + shards - 1) / shards);
}

void ShareIterator::advance() {
  if (++state_.step == steps_) state_ = {state_.epoch + 1, 0};
}

Batch ShareIterator::load(const BatchPlan& plan) const {
  Batch batch = read_batch(*share_.dataset, plan.indices, plan.epoch);
  batch.set_global_size(plan.global_size);
  if (!plan.shards.empty()) batch.set_shards(plan.shards);
  return batch;
}

Batch ShareIterator::next() {
  Batch batch = load(plan_next());
  advance();
  return batch;
}

std::unique_ptr<ShareIterator> create_serial_iterator(Share share, std::int64_t batch_size) {
  return std::make_unique<ShareIterator>(
      std::move(share), ShareIteratorOptions{.batch_size = batch_size, .repeat = false});
}

std::unique_ptr<ShareIterator> create_shuffled_iterator(Share share, std::int64_t batch_size,
                                                        std::uint64_t seed) {
  return std::make_unique<ShareIterator>(
      std::move(share),
      ShareIteratorOptions{.batch_size = batch_size, .shuffle = true, .seed = seed});
}

}  // namespace tasuki
