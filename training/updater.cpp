#include "training/updater.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "training/named_examples.hpp"

namespace tasuki {

double Updater::epoch_detail() const {
  const IteratorState now = state();
  return static_cast<double>(now.epoch) +
         static_cast<double>(now.step) / static_cast<double>(steps_per_epoch());
}

namespace {

constexpr std::size_t most_last_examples = 8;

std::vector<Optimizer*> pointers_of(const NamedOptimizers& optimizers) {
  std::vector<Optimizer*> all;
  for (const NamedOptimizer& each : optimizers) all.push_back(each.optimizer);
  return all;
}

}  // namespace

void Updater::flush() {
  for (const NamedOptimizer& each : optimizers()) each.optimizer->flush();
}

StandardUpdater::StandardUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer,
                                 LossFunction loss, Settings settings)
    : StandardUpdater(
          std::move(iterator), {{"main", &optimizer}},
          [loss = std::move(loss)](const Batch& batch, Observation& report) {
            return std::vector{loss(batch, report)};
          },
          std::move(settings)) {}

StandardUpdater::StandardUpdater(std::unique_ptr<Iterator> iterator, NamedOptimizers optimizers,
                                 LossesFunction losses, Settings settings)
    : iterator_(std::move(iterator)),
      optimizers_(std::move(optimizers)),
      losses_(std::move(losses)),
      settings_(std::move(settings)),
      random_(settings_.seed),
      runner_(pointers_of(optimizers_), {.graph = settings_.graph}),
      position_{0, iterator_->state()},
      transfer_before_(transfer_times()) {
  if (iterator_->steps_per_epoch() < 1)
    fail_everywhere(ErrorKind::data, "there are no examples to train on");
  TASUKI_CHECK(settings_.accumulate >= 1, "an iteration of {} batches", settings_.accumulate);
  // The last one's backward pass frees what the losses share.
  for (const NamedOptimizer& each : optimizers_)
    each.optimizer->keep_graphs(each.optimizer != optimizers_.back().optimizer);
  // A step is left out as a whole.
  const Optimizer& first = *optimizers_.front().optimizer;
  for (const NamedOptimizer& each : optimizers_)
    if (first.skips_non_finite() && each.optimizer->skips_non_finite())
      each.optimizer->skip_with(first);
  if (settings_.accumulate > 1 && settings_.graph == GraphMode::on && !runner_.device().is_cpu())
    fail_everywhere(ErrorKind::usage,
                    "--accumulate and --graph on: iterations of several batches are not recorded "
                    "as graphs; leave one out");
}

std::vector<std::string> StandardUpdater::common_settings() const {
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

void StandardUpdater::update(Observation& observation) {
  AccumulatedBatches batches(runner_, *iterator_, random_, settings_.accumulate);
  last_examples_.clear();
  while (!batches.is_last()) {
    const Batch next = batches.next();
    const std::size_t more = most_last_examples - last_examples_.size();
    const auto ids = next.ids();
    last_examples_.insert(last_examples_.end(), ids.begin(),
                          ids.begin() + static_cast<std::ptrdiff_t>(std::min(more, ids.size())));
    const auto step = [&](const Batch& batch, Observation& seen) {
      train_on(batch, batches, seen);
    };
    runner_.run(next, observation, step, settings_.prefix, batches.is_last());
  }
  batches.succeeded();
  position_ = {position_.iteration + 1, iterator_->state()};
  has_seen_examples_ = has_seen_examples_ || batches.have_examples();
}

void StandardUpdater::train_on(const Batch& batch, AccumulatedBatches& batches, Observation& seen) {
  const std::int64_t weight = batch.weight();
  const std::vector<Variable> losses = forward(batch, batches.random(), seen);
  if (!batches.is_last()) {
    for (std::size_t i = 0; i < losses.size(); ++i)
      optimizers_[i].optimizer->backward(losses[i], weight);
    return;
  }
  std::vector<std::int64_t> examples;
  for (std::size_t i = 0; i < losses.size(); ++i)
    examples.push_back(optimizers_[i].optimizer->backward_and_exchange(losses[i], weight,
                                                                       batches.global_weight()));
  for (std::size_t i = 0; i < losses.size(); ++i) optimizers_[i].optimizer->update(examples[i]);
}

// One pass inside forward() of all optimizers, which every rank calls. Ranks without examples take
// part in the pass if any of the models communicates.
std::vector<Variable> StandardUpdater::forward(const Batch& batch, RandomKeys& random,
                                               Observation& seen) {
  std::vector<Variable> losses(optimizers_.size());
  const auto takes_part = [&](const NamedOptimizer& each) {
    return each.optimizer->takes_part(batch.weight());
  };
  std::function<Variable(std::size_t)> pass = [&](std::size_t i) {
    if (i == optimizers_.size()) {
      if (std::ranges::any_of(optimizers_, takes_part)) losses = losses_of(batch, random, seen);
      return Variable();
    }
    const auto inner = [&] {
      pass(i + 1);
      return losses[i];
    };
    return optimizers_[i].optimizer->forward(inner, batch.weight(), /*always=*/true);
  };
  pass(0);
  return losses;
}

std::vector<Variable> StandardUpdater::losses_of(const Batch& batch, RandomKeys& random,
                                                 Observation& seen) {
  const RandomScope scope(random);
  seen.clear();  // from a pass that is now repeated
  std::vector<Variable> losses = naming_examples(batch, [&] { return losses_(batch, seen); });
  TASUKI_CHECK(losses.size() == optimizers_.size(), "{} losses for {} optimizers", losses.size(),
               optimizers_.size());
  if (batch.weight() == 0 || !settings_.has_loss) return losses;
  Tensor sum = losses.front().value();
  for (std::size_t i = 0; i < losses.size() && losses.size() > 1; ++i) {
    seen.add_mean(optimizers_[i].name + "/loss", losses[i].value(), batch.weight());
    if (i > 0) sum = backend(sum.device()).add(sum, losses[i].value());
  }
  seen.add_mean("loss", sum, batch.weight());
  return losses;
}

TransferTimes StandardUpdater::transfer_times() const {
  TransferTimes times;
  for (const NamedOptimizer& each : optimizers_) {
    const TransferTimes own = each.optimizer->transfer_times();
    times.transfer += own.transfer;
    times.exposed += own.exposed;
  }
  return times;
}

RankTimes StandardUpdater::times() const {
  StepTimes times = runner_.times();
  const TransferTimes now = transfer_times();
  times.transfer = now.transfer - transfer_before_.transfer;
  times.exposed = now.exposed - transfer_before_.exposed;
  return {times};
}

void StandardUpdater::serialize(const Serializer& serializer) {
  const Communicator* const dealt_to = optimizer().communicator();
  const std::int64_t ranks = dealt_to ? dealt_to->size() : 1;
  serialize_position(serializer, {settings_.seed, ranks, settings_.accumulate}, position_,
                     *iterator_);
  serialize_optimizers(serializer, optimizers_, position_.data.epoch);
}

LossFunction classification_loss(Classifier& model) {
  return [&model](const Batch& batch, Observation& report) {
    const Device device = model.device();
    Classifier::Result result = model(Variable(batch["x"].to(device)), batch["t"].to(device));
    report.add_sum("accuracy", result.correct, result.counted);
    return result.loss;
  };
}

}  // namespace tasuki
