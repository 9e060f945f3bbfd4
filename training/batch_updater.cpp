#include "training/batch_updater.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace tasuki {
namespace {

constexpr std::size_t most_last_examples = 8;

std::vector<Optimizer*> pointers_of(const NamedOptimizers& optimizers) {
  std::vector<Optimizer*> all;
  for (const NamedOptimizer& each : optimizers) all.push_back(each.optimizer);
  return all;
}

}  // namespace

RandomKeys& RandomKeysOfBatches::of(std::int64_t batch) {
  while (std::ssize(keys_) <= batch) keys_.push_back(std::make_unique<RandomKeys>(seed_));
  return *keys_[static_cast<std::size_t>(batch)];
}

AccumulatedBatches::AccumulatedBatches(StepRunner& runner, Iterator& iterator,
                                       RandomKeysOfBatches& keys, std::int64_t most,
                                       std::optional<Range> shards)
    : runner_(runner), iterator_(iterator), keys_(keys), most_(most), shards_(shards) {}

Batch AccumulatedBatches::read() {
  Batch batch = runner_.read(iterator_);
  if ((most_ > 1 || shards_) && !all_) all_.emplace();
  ++read_;
  all_read_ = read_ == most_ || iterator_.is_new_epoch();
  have_examples_ = have_examples_ || batch.size() > 0;
  is_weighted_ = is_weighted_ || batch.counted();
  const std::optional<std::int64_t> more = batch.global_size();
  global_examples_ =
      global_examples_ && more ? std::optional(*global_examples_ + *more) : std::nullopt;
  return batch;
}

Batch AccumulatedBatches::next() {
  if (shards_) return next_of_shards();
  Batch batch = read();
  ++taken_;
  is_last_ = all_read_;
  // The runner skips a batch if no rank has examples of it. The last batch must not be skipped, as
  // its work exchanges the gradients of all batches.
  if (is_last_ && batch.global_size() == 0) batch.set_global_size(global_examples_);
  random().follow(batch.epoch(), batch.ids());
  return batch;
}

// All batches are read first: a shard's parts of them follow one another.
Batch AccumulatedBatches::next_of_shards() {
  while (!all_read_) {
    Batch& batch = whole_.emplace_back(read());
    if (std::ssize(batch.shards()) != shards_->size())
      fail(ErrorKind::usage,
           "--reproducible: a batch says which examples are of which of {} shards, expected {}; "
           "use a ShareIterator that marks shards",
           batch.shards().size(), shards_->size());
  }
  const std::int64_t batches = std::ssize(whole_), number = taken_ / batches;
  begins_shard_ = taken_ % batches == 0 ? std::optional(shards_->begin + number) : std::nullopt;
  Batch part =
      whole_[static_cast<std::size_t>(taken_ % batches)].shard(static_cast<std::size_t>(number));
  ++taken_;
  is_last_ = taken_ == batches * shards_->size();
  random().follow(part.epoch(), part.ids());
  return part;
}

void AccumulatedBatches::succeeded() {
  if (all_) all_->succeeded();
}

BatchUpdater::BatchUpdater(std::unique_ptr<Iterator> iterator, NamedOptimizers optimizers,
                           Settings settings)
    : iterator_(std::move(iterator)),
      optimizers_(std::move(optimizers)),
      settings_(std::move(settings)),
      random_(settings_.seed),
      runner_(pointers_of(optimizers_), {.graph = settings_.graph}),
      position_{0, iterator_->state()},
      transfer_before_(transfer_times()) {
  if (iterator_->steps_per_epoch() < 1)
    fail_everywhere(ErrorKind::data, "there are no examples to train on");
  TASUKI_CHECK(settings_.accumulate >= 1, "an iteration of {} batches", settings_.accumulate);
  if (settings_.accumulate > 1 && settings_.graph == GraphMode::on && !runner_.device().is_cpu())
    fail_everywhere(ErrorKind::usage,
                    "--accumulate and --graph on: iterations of several batches are not recorded "
                    "as graphs; leave one out");
}

std::vector<std::string> BatchUpdater::common_settings() const {
  const EpochLayout layout = iterator_->layout();
  return {
      fmt::format("a global batch of {}", layout.global_batch),
      fmt::format("{} batch(es) in an iteration", settings_.accumulate),
      fmt::format("seed {}", settings_.seed),
      layout.is_shuffled ? fmt::format("data shuffled with seed {}", layout.seed) : "data in order",
      fmt::format("data of {} examples", layout.examples),
      fmt::format("data in {} shards", layout.shards),
      fmt::format("buckets of {} steps", layout.bucket_steps)};
}

AccumulatedBatches BatchUpdater::next_batches() {
  last_examples_.clear();
  const ShardSources* const shards = optimizer().arena().shards();
  const Communicator* const ranks = optimizer().communicator();
  std::optional<Range> own;
  if (shards != nullptr) {
    const auto& roots = shards->of_group[ranks ? static_cast<std::size_t>(ranks->rank()) : 0];
    own = {roots.front().begin, roots.back().end};
  }
  return {runner_, *iterator_, random_, settings_.accumulate, own};
}

void BatchUpdater::begin_shard(const AccumulatedBatches& batches) const {
  if (const std::optional<std::int64_t> shard = batches.begins_shard())
    for (const NamedOptimizer& each : optimizers_) each.optimizer->begin_shard(*shard);
}

void BatchUpdater::run_on_device(const Batch& batch, const AccumulatedBatches& batches,
                                 Observation& observation, const StepRunner::Work& step) {
  const auto ids = batch.ids();
  const std::size_t more = std::min(most_last_examples - last_examples_.size(), ids.size());
  last_examples_.insert(last_examples_.end(), ids.begin(),
                        ids.begin() + static_cast<std::ptrdiff_t>(more));
  runner_.run(batch, observation, step, settings_.prefix, batches.is_last());
}

void BatchUpdater::finish(AccumulatedBatches& batches) {
  batches.succeeded();
  position_ = {position_.iteration + 1, iterator_->state()};
  has_seen_examples_ = has_seen_examples_ || batches.have_examples();
}

TransferTimes BatchUpdater::transfer_times() const {
  TransferTimes times;
  for (const NamedOptimizer& each : optimizers_) {
    const TransferTimes own = each.optimizer->step_exchange().times();
    times.transfer += own.transfer;
    times.exposed += own.exposed;
  }
  return times;
}

RankTimes BatchUpdater::times() const {
  StepTimes times = runner_.times();
  const TransferTimes now = transfer_times();
  times.transfer = now.transfer - transfer_before_.transfer;
  times.exposed = now.exposed - transfer_before_.exposed;
  return {times};
}

void BatchUpdater::serialize(const Serializer& serializer) {
  const Communicator* const dealt_to = optimizer().communicator();
  const std::int64_t ranks = dealt_to ? dealt_to->size() : 1;
  serialize_position(serializer, {settings_.seed, ranks, settings_.accumulate}, position_,
                     *iterator_);
  serialize_optimizers(serializer, optimizers_, position_.data.epoch);
}

}  // namespace tasuki
