#include "tasuki/training/updater.hpp"

#include <utility>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/stopwatch.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/training/snapshots/state.hpp"

namespace tasuki {
namespace {

// Random functions in a forward pass whose seeds are on the device before it; others cannot be
// recorded.
constexpr std::int64_t device_seeds = 64;

}  // namespace

double Updater::epoch_detail() const {
  const IteratorState now = state();
  return static_cast<double>(now.epoch) +
         static_cast<double>(now.step) / static_cast<double>(steps_per_epoch());
}

StandardUpdater::StandardUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer,
                                 LossFunction loss, Settings settings)
    : iterator_(std::move(iterator)),
      optimizer_(optimizer),
      loss_(std::move(loss)),
      settings_(std::move(settings)),
      steps_(optimizer.arena().values().device(), settings_.graph,
             [&optimizer](bool yes) { return optimizer.all_ranks(yes); }),
      seeds_(steps_.block().reserve(device_seeds, DType::int64)),
      arenas_of_recordings_(optimizer.arenas_made()) {
  if (iterator_->steps_per_epoch() < 1)
    fail_everywhere(ErrorKind::data, "there are no examples to train on");
  steps_.join(*iterator_);
  if (!steps_.device().is_cpu()) {
    optimizer_.join(steps_.block());
    clock_ = Tensor::zeros({step_clock_values}, DType::float64, steps_.device());
    optimizer_.stamp_exchanges(clock_);
  }
}

StandardUpdater::~StandardUpdater() {
  if (steps_.device().is_cpu()) return;
  optimizer_.leave();
  optimizer_.stamp_exchanges({});
}

RankTimes StandardUpdater::times() const {
  return {clock_ ? read_step_clock(clock_, times_.steps) : times_};
}

void StandardUpdater::stamp(StepMoment moment) const {
  if (clock_) backend(clock_.device()).stamp(clock_, moment);
}

std::vector<std::string> StandardUpdater::common_settings() const {
  const EpochLayout layout = iterator_->layout();
  return {
      fmt::format("a global batch of {}", layout.global_batch),
      fmt::format("seed {}", settings_.seed),
      layout.is_shuffled ? fmt::format("data shuffled with seed {}", layout.seed) : "data in order",
      fmt::format("data of {} examples", layout.examples),
      fmt::format("data in {} shards", layout.shards)};
}

void StandardUpdater::update(Observation& observation) {
  if (since_update_.lap() > longest_pause) stamp(StepMoment::resume);
  Stopwatch watch;
  const std::int64_t known_global_size = iterator_->next_global_size();
  Batch batch = [this] {
    const PhaseScope loading(Phase::loading);
    return iterator_->announce();
  }();
  times_.input += watch.lap();
  Step step;
  step.examples = batch.size();
  has_seen_examples_ = has_seen_examples_ || batch.size() > 0;
  step.global_examples = known_global_size >= 0 ? known_global_size : ask_global_size(batch.size());
  const double exchanged_before = optimizer_.exchange_seconds();
  if (step.global_examples > 0) {
    if (steps_.recorded().records()) {
      const std::string reason = optimizer_.why_not_recorded();
      if (!reason.empty()) steps_.recorded().refuse(reason);
    }
    step.may_be_recorded = steps_.recorded().records();
    const bool is_alike = optimizer_.prepare(step);
    forget_old_recordings();
    write_seeds(batch.epoch());
    const Observation seen = steps_.run(
        {step.examples, step.global_examples}, [&] { return perform(step, batch); }, is_alike);
    optimizer_.complete();
    observation.add(seen, settings_.prefix);
  }
  const double exchange = optimizer_.exchange_seconds() - exchanged_before;
  times_.communication += exchange;
  times_.compute += watch.lap() - exchange;
  ++times_.steps;
  ++iteration_;
  since_update_.lap();
}

void StandardUpdater::forget_old_recordings() {
  // A step in which parameters get their shape is unlike the others.
  if (arenas_of_recordings_ != optimizer_.arenas_made() || !optimizer_.arena().unshaped().empty())
    steps_.recorded().forget();
  arenas_of_recordings_ = optimizer_.arenas_made();
}

Observation StandardUpdater::perform(Step step, Batch& batch) {
  stamp(StepMoment::begin);
  Observation seen;
  step.loss = [&] {
    seen.clear();
    iterator_->fill(batch);
    const Batch there = batch.to(steps_.device());
    RandomContext context{settings_.seed, there.epoch(), there.ids()};
    if (there.device_ids()) {
      context.device_ids = there.device_ids();
      context.device_seeds = steps_.block().on_device(seeds_);
    }
    const RandomScope random(std::move(context));
    Variable result = loss_(there, seen);
    const auto n = static_cast<double>(step.examples);
    seen.add("loss", result.value(), n, step.examples);
    return result;
  };
  optimizer_.perform(step);
  stamp(StepMoment::end);
  return seen;
}

void StandardUpdater::write_seeds(std::int64_t epoch) {
  if (steps_.device().is_cpu()) return;
  std::uint64_t call = 0;
  for (std::int64_t& seed : steps_.block().host<std::int64_t>(seeds_))
    seed = static_cast<std::int64_t>(random_seed(settings_.seed, epoch, call++));
}

std::int64_t StandardUpdater::ask_global_size(std::int64_t local) const {
  if (settings_.communicator == nullptr) return local;
  const Tensor sum = Tensor::from(std::span<const std::int64_t>(&local, 1), Shape{});
  settings_.communicator->allreduce(sum);
  return *sum.data<std::int64_t>();
}

void StandardUpdater::serialize(const Serializer& serializer) {
  const std::int64_t ranks = settings_.communicator ? settings_.communicator->size() : 1;
  serialize_position(serializer, {settings_.seed, ranks}, iteration_, *iterator_);
  load_shapes(serializer["model:main"], optimizer_);
  serialize_model(serializer["model:main"], optimizer_.model());
  serialize_optimizer(serializer["optimizer:main"], optimizer_);
}

LossFunction classification_loss(Classifier& model) {
  return [&model](const Batch& batch, Observation& report) {
    const Device device = model.device();
    Classifier::Result result = model(Variable(batch["x"].to(device)), batch["t"].to(device));
    report.add("accuracy", result.correct, 1, result.examples);
    return result.loss;
  };
}

}  // namespace tasuki
