#include "tasuki/training/workers/parallel_updater.hpp"

#include <numeric>
#include <utility>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/core/stopwatch.hpp"
#include "tasuki/tensor/out_of_memory.hpp"
#include "tasuki/training/snapshots/state.hpp"

namespace tasuki {
namespace {

std::vector<Module*> models_of(const std::vector<ParallelUpdater::Worker>& workers) {
  std::vector<Module*> models;
  models.reserve(workers.size());
  for (const auto& worker : workers) models.push_back(&worker.model);
  return models;
}

std::vector<int> threads_of(const std::vector<ParallelUpdater::Worker>& workers) {
  std::vector<int> threads;
  threads.reserve(workers.size());
  for (const auto& worker : workers) threads.push_back(worker.threads);
  return threads;
}

}  // namespace

ParallelUpdater::ParallelUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer,
                                 std::vector<Worker> workers, Settings settings)
    : iterator_(std::move(iterator)),
      optimizer_(optimizer),
      settings_(std::move(settings)),
      replicas_(optimizer, models_of(workers), settings_.weights),
      threads_(threads_of(workers)) {
  TASUKI_CHECK(settings_.split.workers() == workers.size(), "a split for {} workers, there are {}",
               settings_.split.workers(), workers.size());
  if (iterator_->steps_per_epoch() < 1)
    fail_everywhere(ErrorKind::data, "there are no examples to train on");
  for (Worker& worker : workers) losses_.push_back(std::move(worker.loss));
  for (std::size_t i = 0; i < workers.size(); ++i)
    clocks_.push_back(Tensor::zeros({step_clock_values}, DType::float64, replicas_.device(i)));
}

RankTimes ParallelUpdater::times() const {
  RankTimes times;
  times.reserve(clocks_.size());
  for (const Tensor& clock : clocks_) times.push_back(read_step_clock(clock, steps_));
  return times;
}

void ParallelUpdater::stamp(std::size_t worker, StepMoment moment) const {
  backend(clocks_[worker].device()).stamp(clocks_[worker], moment);
}

void ParallelUpdater::stamp_all(StepMoment moment) const {
  for (std::size_t worker = 0; worker < clocks_.size(); ++worker) stamp(worker, moment);
}

void ParallelUpdater::run_parts(const Batch& batch, const std::vector<std::int64_t>& parts,
                                const Work& work) {
  std::vector<std::int64_t> ends(parts.size());
  std::partial_sum(parts.begin(), parts.end(), ends.begin());
  threads_.run([&](std::size_t worker) {
    const std::int64_t begin = ends[worker] - parts[worker];
    try {
      const Device device = replicas_.device(worker);
      const Batch part = batch.slice(begin, ends[worker]);
      work(worker, device.is_cpu() ? part.to(device) : part.to(device, settings_.activations));
    } catch (const OutOfMemory&) {
      throw;  // its figures are wanted
    } catch (const Error& error) {
      if (parts.size() == 1) throw;
      throw Error(error.kind(), fmt::format("worker {} ({}): {}", worker,
                                            replicas_.device(worker).text(), error.what()));
    }
  });
}

ParallelUpdater::Outcome ParallelUpdater::compute_gradients(std::size_t worker, const Batch& part) {
  Stopwatch watch;
  Outcome outcome;
  stamp(worker, StepMoment::begin);
  replicas_.begin_gradients(worker);
  if (part.size() > 0) {
    const Variable loss = [&] {
      const RandomScope random({settings_.seed, part.epoch(), part.ids()});
      return losses_[worker](part, outcome.reported);
    }();
    if (worker == 0) optimizer_.check_graph(loss);
    // Sums over examples, so that parts of any size add up.
    loss.backward(static_cast<float>(part.size()));
    outcome.loss = loss.value();
  }
  replicas_.end_gradients(worker);
  stamp(worker, StepMoment::exchange);
  if (settings_.split.wants_times()) {
    const Device device = replicas_.device(worker);
    backend(device).synchronize(device);
    outcome.seconds = watch.lap();
  }
  return outcome;
}

void ParallelUpdater::update(Observation& observation) {
  if (since_update_.lap() > longest_pause || steps_ == 0) stamp_all(StepMoment::resume);
  const Batch batch = [this] {
    const PhaseScope loading(Phase::loading);
    return iterator_->next();
  }();
  const std::vector<std::int64_t> parts = settings_.split.parts(batch.size());
  std::vector<Outcome> outcomes(parts.size());
  StepInParts step;
  step.global_examples = batch.size();
  step.gradients = [&] {
    run_parts(batch, parts, [&](std::size_t worker, const Batch& part) {
      outcomes[worker] = compute_gradients(worker, part);
    });
    replicas_.sum_gradients(threads_);
    // Where weights are copied, all but the first worker wait for them.
    if (replicas_.share_weights())
      stamp_all(StepMoment::exchanged);
    else
      stamp(0, StepMoment::exchanged);
  };
  step.apply = [&](const UpdateStep& update) { replicas_.apply(threads_, update); };
  optimizer_.update_in_parts(step);
  if (!replicas_.share_weights())
    for (std::size_t worker = 1; worker < clocks_.size(); ++worker)
      stamp(worker, StepMoment::exchanged);
  stamp_all(StepMoment::end);
  ++steps_;
  ++iteration_;
  since_update_.lap();
  if (batch.size() == 0) return;

  for (std::size_t worker = 0; worker < parts.size(); ++worker) {
    const Outcome& outcome = outcomes[worker];
    if (parts[worker] == 0) continue;
    observation.add(settings_.prefix + "loss", outcome.loss, static_cast<double>(parts[worker]),
                    parts[worker]);
    observation.add(outcome.reported, settings_.prefix);
  }
  follow_times(parts, outcomes);
}

void ParallelUpdater::follow_times(const std::vector<std::int64_t>& parts,
                                   const std::vector<Outcome>& outcomes) {
  std::vector<double> seconds;
  seconds.reserve(outcomes.size());
  for (const Outcome& outcome : outcomes) seconds.push_back(outcome.seconds);
  if (settings_.split.observe(parts, seconds))
    log_info("iteration {}: batches are now split {}, by the workers' measured speeds", iteration_,
             settings_.split.text());
}

LossFunction ParallelUpdater::evaluation_loss() {
  return [this](const Batch& batch, Observation& report) { return evaluate(batch, report); };
}

Variable ParallelUpdater::evaluate(const Batch& batch, Observation& report) {
  replicas_.copy_buffers();
  const std::vector<std::int64_t> parts = settings_.split.parts(batch.size());
  std::vector<Outcome> outcomes(parts.size());
  run_parts(batch, parts, [&](std::size_t worker, const Batch& part) {
    if (part.size() == 0) return;
    const NoGrad no_grad;
    const TrainingMode evaluation(false);
    Outcome& outcome = outcomes[worker];
    outcome.loss = losses_[worker](part, outcome.reported).value();
  });
  // On the first worker's device, which nothing waits for.
  const Device device = replicas_.device(0);
  const Tensor loss_sum = Tensor::zeros({}, DType::float64, device);
  for (std::size_t worker = 0; worker < parts.size(); ++worker) {
    const Outcome& outcome = outcomes[worker];
    if (parts[worker] > 0)
      backend(device).accumulate_scalar(loss_sum, outcome.loss.to(device),
                                        static_cast<double>(parts[worker]));
    report.add(outcome.reported);
  }
  const Tensor mean = Tensor::zeros({}, DType::float64, device);
  backend(device).accumulate_scalar(mean, loss_sum, 1 / static_cast<double>(batch.size()));
  return Variable(mean);
}

void ParallelUpdater::serialize(const Serializer& serializer) {
  serialize_position(serializer, {settings_.seed, 1}, iteration_, *iterator_);
  serialize_model(serializer["model:main"], optimizer_.model());
  serialize_optimizer(serializer["optimizer:main"], optimizer_);
  serialize_split(serializer["workers"]);
  if (serializer.is_loading()) replicas_.copy_weights();
}

// A run that goes on starts with the split that this one has found.
void ParallelUpdater::serialize_split(const Serializer& serializer) {
  BatchSplit& split = settings_.split;
  if (serializer.is_loading() ? !serializer.contains("count") : !split.is_measured()) return;
  auto count = static_cast<std::int64_t>(split.workers());
  serializer("count", count);
  if (count != static_cast<std::int64_t>(split.workers())) return;
  const Tensor weights = Tensor::from(std::span<const double>(split.weights()), {count});
  serializer("weights", weights);
  const auto values = weights.span<double>();
  split.resume({values.begin(), values.end()});
}

}  // namespace tasuki
