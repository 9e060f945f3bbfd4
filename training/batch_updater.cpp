#include "training/batch_updater.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "saving/local_steps_state.hpp"
#include "training/named_examples.hpp"
#include "training/workers/shard_threads.hpp"

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
                                       std::optional<Range> shards, bool is_of_group)
    : runner_(runner),
      iterator_(iterator),
      keys_(keys),
      most_(most),
      is_of_group_(is_of_group),
      shards_(shards) {}

Batch AccumulatedBatches::read() {
  Batch batch = runner_.read(iterator_);
  if ((most_ > 1 || shards_) && !all_) all_.emplace();
  ++read_;
  all_read_ = read_ == most_ || iterator_.is_new_epoch();
  have_examples_ = have_examples_ || batch.size() > 0;
  is_weighted_ = is_weighted_ || batch.counted();
  weight_ += batch.weight();
  const std::optional<std::int64_t> more = batch.global_size();
  global_examples_ =
      global_examples_ && more ? std::optional(*global_examples_ + *more) : std::nullopt;
  return batch;
}

// With shards all batches are read first: a shard's parts of them follow one another.
void AccumulatedBatches::read_all() {
  while (!all_read_) {
    Batch& batch = whole_.emplace_back(read());
    if (std::ssize(batch.shards()) != shards_->size())
      fail(ErrorKind::usage,
           "--reproducible: a batch says which examples are of which of {} shards, expected {}; "
           "use a ShareIterator that marks shards",
           batch.shards().size(), shards_->size());
  }
  keys_.of(parts() - 1);
}

Batch AccumulatedBatches::part(std::int64_t i) const {
  const std::int64_t batches = std::ssize(whole_);
  return whole_[static_cast<std::size_t>(i % batches)].shard(static_cast<std::size_t>(i / batches));
}

std::optional<std::int64_t> AccumulatedBatches::begins_shard(std::int64_t i) const {
  const std::int64_t batches = std::ssize(whole_);
  return i % batches == 0 ? std::optional(shards_->begin + i / batches) : std::nullopt;
}

Range AccumulatedBatches::parts_of(Range shards) const {
  const std::int64_t batches = std::ssize(whole_);
  return {(shards.begin - shards_->begin) * batches, (shards.end - shards_->begin) * batches};
}

Batch AccumulatedBatches::next() {
  if (shards_) read_all();
  Batch batch = shards_ ? part(taken_) : read();
  ++taken_;
  is_last_ = shards_ ? taken_ == parts() : all_read_;
  // The runner skips a batch if no rank has examples of it. The last batch must not be skipped, as
  // its work exchanges the gradients of all batches.
  if (is_last_ && batch.global_size() == 0) batch.set_global_size(global_examples_);
  random().follow(batch.epoch(), batch.ids());
  return batch;
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
      transfer_before_(transfer_times()),
      synchronised_before_(settings_.local_steps ? settings_.local_steps->seconds() : 0) {
  if (iterator_->steps_per_epoch() < 1)
    fail_everywhere(ErrorKind::data, "there are no examples to train on");
  TASUKI_CHECK(settings_.accumulate >= 1, "an iteration of {} batches", settings_.accumulate);
  if (settings_.accumulate > 1 && settings_.graph == GraphMode::on && !runner_.device().is_cpu())
    fail_everywhere(ErrorKind::usage,
                    "--accumulate and --graph on: iterations of several batches are not recorded "
                    "as graphs; leave one out");
  start_threads();
}

BatchUpdater::~BatchUpdater() = default;

void BatchUpdater::start_threads() {
  if (optimizer().shards() == 0 || !settings_.create_copy) return;
  // Copies would read weights that only the passes of the model itself gather.
  for (const NamedOptimizer& each : optimizers_)
    if (each.optimizer->divides_weights()) return;
  const std::size_t threads =
      std::min(settings_.shard_threads, static_cast<std::size_t>(optimizer().own_shards().size()));
  for (const NamedOptimizer& each : optimizers_)
    if (const auto& unshaped = each.optimizer->arena().unshaped(); !unshaped.empty() && threads > 1)
      return log_warning(
          "--reproducible: one thread computes, because parameter {} has no shape yet, which "
          "copies "
          "of the model for further threads need; give the layer its input size",
          unshaped.front().path);
  if (threads > 1)
    threads_ = std::make_unique<ShardThreads>(
        optimizers_, settings_.evaluated_model ? *settings_.evaluated_model : optimizer().model(),
        settings_.create_copy, threads);
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
  std::optional<Range> shards;
  if (optimizer().shards() > 0) shards = optimizer().own_shards();
  return {
      runner_, *iterator_, random_, settings_.accumulate, shards, settings_.local_steps != nullptr};
}

void BatchUpdater::begin_shard(const AccumulatedBatches& batches) const {
  if (const std::optional<std::int64_t> shard = batches.begins_shard())
    for (const NamedOptimizer& each : optimizers_) each.optimizer->begin_shard(*shard);
}

void BatchUpdater::run_on_device(const Batch& batch, const AccumulatedBatches& batches,
                                 Observation& observation, const StepRunner::Work& step) {
  note_examples(batch);
  runner_.run(batch, observation, step, settings_.prefix, batches.is_last());
}

void BatchUpdater::note_examples(const Batch& batch) {
  const auto ids = batch.ids();
  const std::size_t more = std::min(most_last_examples - last_examples_.size(), ids.size());
  last_examples_.insert(last_examples_.end(), ids.begin(),
                        ids.begin() + static_cast<std::ptrdiff_t>(more));
}

void BatchUpdater::run_shards(AccumulatedBatches& batches, Observation& observation,
                              const Pass& pass) {
  batches.read_all();
  for (std::int64_t i = 0; i < batches.parts() && last_examples_.size() < most_last_examples; ++i)
    note_examples(batches.part(i));
  const std::optional<std::int64_t> global = batches.global_weight();
  Batch all;
  all.set_global_size(global);
  const auto step = [&](const Batch&, Observation& seen) {
    for (const NamedOptimizer& each : optimizers_) {
      each.optimizer->agree_on_step(batches.weight());
      each.optimizer->begin_threads();
    }
    std::vector<Observation> of_threads(threads_->size());
    threads_->run_step(
        [&](std::size_t thread) { run_thread(thread, batches, pass, of_threads[thread]); });
    for (const Observation& each : of_threads) seen.add(each);
    std::vector<std::int64_t> examples;
    for (const NamedOptimizer& each : optimizers_) {
      each.optimizer->set_examples(batches.weight());  // its own passes had the first thread's only
      examples.push_back(each.optimizer->exchange(global));
    }
    for (std::size_t i = 0; i < examples.size(); ++i) optimizers_[i].optimizer->update(examples[i]);
  };
  runner_.run(all, observation, step, settings_.prefix);
}

void BatchUpdater::run_thread(std::size_t thread, const AccumulatedBatches& batches,
                              const Pass& pass, Observation& seen) const {
  const Range parts = batches.parts_of(optimizer().shards_of(thread));
  for (std::int64_t i = parts.begin; i < parts.end; ++i) {
    if (const std::optional<std::int64_t> shard = batches.begins_shard(i))
      for (const NamedOptimizer& each : optimizers_) each.optimizer->begin_shard(*shard);
    const Batch batch = runner_.on_cpu(batches.part(i));
    RandomKeys& random = batches.random_of(i);
    random.follow(batch.epoch(), batch.ids());
    Observation found;
    if (thread == 0) {
      pass(batch, random, found);
    } else {
      std::vector<Variable> losses(optimizers_.size());
      if (batch.weight() > 0) {
        const RandomScope scope(random);
        losses = naming_examples(batch, [&] { return threads_->losses_of(thread)(batch, found); });
        report_losses(losses, batch, found);
      }
      for (std::size_t each = 0; each < losses.size(); ++each)
        optimizers_[each].optimizer->backward_in(thread, losses[each], batch.weight());
    }
    seen.add(found);
  }
  for (const NamedOptimizer& each : optimizers_) each.optimizer->end_thread(thread);
}

LossFunction BatchUpdater::evaluation_loss(LossFunction loss) const {
  return threads_ ? ThreadedLoss(std::move(loss), *threads_) : std::move(loss);
}

void BatchUpdater::report_losses(const std::vector<Variable>& losses, const Batch& batch,
                                 Observation& seen) const {
  TASUKI_CHECK(losses.size() == optimizers_.size(), "{} losses for {} optimizers", losses.size(),
               optimizers_.size());
  if (!settings_.has_loss || batch.weight() == 0) return;
  Tensor sum = losses.front().value();
  for (std::size_t i = 0; i < losses.size() && losses.size() > 1; ++i) {
    seen.add_mean(optimizers_[i].name + "/loss", losses[i].value(), batch.weight());
    if (i > 0) sum = backend(sum.device()).add(sum, losses[i].value());
  }
  seen.add_mean("loss", sum, batch.weight());
}

void BatchUpdater::finish(AccumulatedBatches& batches) {
  batches.succeeded();
  position_ = {position_.iteration + 1, iterator_->state()};
  has_seen_examples_ = has_seen_examples_ || batches.have_examples();
  if (settings_.local_steps) settings_.local_steps->end_step(batches.weight());
}

void BatchUpdater::flush() {
  Updater::flush();
  if (settings_.local_steps) settings_.local_steps->synchronise();
}

std::optional<bool> BatchUpdater::asked_to_stop() const {
  return settings_.local_steps ? std::optional(settings_.local_steps->asked_to_stop())
                               : std::nullopt;
}

TransferTimes BatchUpdater::transfer_times() const {
  TransferTimes times;
  for (const NamedOptimizer& each : optimizers_) {
    const TransferTimes own = each.optimizer->step_exchange().times();
    times.transfer += own.transfer;
    times.exposed += own.exposed;
  }
  if (settings_.local_steps) {
    times.transfer += settings_.local_steps->seconds();
    times.exposed += settings_.local_steps->seconds();
  }
  return times;
}

RankTimes BatchUpdater::times() const {
  if (!runner_.measures_times()) return {};
  StepTimes times = runner_.times();
  const TransferTimes now = transfer_times();
  times.transfer = now.transfer - transfer_before_.transfer;
  times.exposed = now.exposed - transfer_before_.exposed;
  if (settings_.local_steps)
    times.exchange += settings_.local_steps->seconds() - synchronised_before_;
  return {times};
}

void BatchUpdater::serialize(const Serializer& serializer) {
  LocalSteps* const local_steps = settings_.local_steps;
  const Communicator* const dealt_to =
      local_steps ? &local_steps->all() : optimizer().communicator();
  const std::int64_t ranks = dealt_to ? dealt_to->size() : 1;
  serialize_position(serializer, {settings_.seed, ranks, settings_.accumulate}, position_,
                     *iterator_);
  serialize_optimizers(serializer, optimizers_, position_.data.epoch, local_steps);
  if (local_steps)
    serialize_local_steps(serializer["local_steps"], optimizers_, *local_steps,
                          position_.iteration);
  else
    warn_of_local_steps(serializer["local_steps"]);
}

}  // namespace tasuki
