#include "training/workers/parallel_updater.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/stopwatch.hpp"
#include "tensor/late_values.hpp"
#include "tensor/out_of_memory.hpp"
#include "tensor/recorder.hpp"
#include "training/device_clock.hpp"
#include "training/named_examples.hpp"
#include "training/workers/replicas.hpp"
#include "training/workers/worker_threads.hpp"

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

struct ParallelUpdater::Outcome {
  Tensor loss;              // mean over the part; undefined without examples
  std::int64_t weight = 0;  // of the part: Batch::weight
  Observation reported;
  detail::Requests requests;
  double seconds = 0;
};

ParallelUpdater::ParallelUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer,
                                 std::vector<Worker> workers, Settings settings)
    : iterator_(std::move(iterator)),
      optimizer_(optimizer),
      settings_(std::move(settings)),
      replicas_(std::make_unique<Replicas>(optimizer, models_of(workers),
                                           settings_.weights == Weights::copied)),
      threads_(std::make_unique<WorkerThreads>(threads_of(workers))),
      position_{0, iterator_->state()} {
  TASUKI_CHECK(settings_.split.workers() == workers.size(),
               "a split for {} workers was given, but there are {}", settings_.split.workers(),
               workers.size());
  if (optimizer_.guard().skips_non_finite())
    fail_everywhere(ErrorKind::usage,
                    "--on-nan skip: one process with several devices cannot leave out steps; start "
                    "one process for each device, or leave the flag out");
  if (iterator_->steps_per_epoch() < 1)
    fail_everywhere(ErrorKind::data, "there are no examples to train on");
  for (Worker& worker : workers) {
    losses_.push_back(std::move(worker.loss));
    random_.push_back(std::make_unique<RandomKeys>(settings_.seed));
  }
  bool are_cpus = true;
  for (std::size_t i = 0; i < losses_.size(); ++i) are_cpus &= replicas_->device(i).is_cpu();
  if (are_cpus) measure_times();
}

ParallelUpdater::~ParallelUpdater() = default;

void ParallelUpdater::measure_times() {
  if (!clocks_.empty()) return;
  for (std::size_t i = 0; i < losses_.size(); ++i) clocks_.emplace_back(replicas_->device(i));
}

void ParallelUpdater::note(std::size_t worker, StepClock::Moment moment) const {
  if (!clocks_.empty()) clocks_[worker].note(moment);
}

RankTimes ParallelUpdater::times() const {
  RankTimes times;
  times.reserve(clocks_.size());
  for (const DeviceClock& clock : clocks_) times.push_back(clock.times());
  return times;
}

void ParallelUpdater::run_parts(const Batch& batch, const std::vector<std::int64_t>& parts,
                                const Work& work) {
  std::vector<std::int64_t> ends(parts.size());
  std::partial_sum(parts.begin(), parts.end(), ends.begin());
  threads_->run([&](std::size_t worker) {
    const std::int64_t begin = ends[worker] - parts[worker];
    try {
      const Device device = replicas_->device(worker);
      const Batch part = batch.slice(begin, ends[worker]);
      // Elements of float64 keep their type on a CPU that computes in float32.
      const bool converts = !device.is_cpu() || has_16_bits(settings_.activations);
      work(worker, converts ? part.to(device, settings_.activations) : part.to(device));
    } catch (const OutOfMemory&) {
      throw;  // keeps the figures in OutOfMemory
    } catch (const Error& error) {
      if (parts.size() == 1) throw;
      throw Error(error.kind(), fmt::format("worker {} ({}): {}", worker,
                                            replicas_->device(worker).text(), error.what()));
    }
  });
}

ParallelUpdater::Outcome ParallelUpdater::compute_gradients(std::size_t worker, const Batch& part) {
  Stopwatch watch;
  Outcome outcome;
  const StepScope step;
  note(worker, StepClock::Moment::forward);
  const auto forward = [&] {
    const RandomScope random(*random_[worker]);
    Variable loss = naming_examples(part, [&] { return losses_[worker](part, outcome.reported); });
    outcome.loss = loss.value();
    return loss;
  };
  // Sums over examples, or over targets that count, so that parts of any size can be added.
  outcome.weight = part.weight();
  if (worker == 0) {
    const Variable loss = optimizer_.forward(forward, outcome.weight);
    note(worker, StepClock::Moment::backward);
    optimizer_.backward(loss, outcome.weight);
  } else {
    replicas_->begin_gradients(worker);
    const Variable loss = outcome.weight > 0 ? forward() : Variable();
    note(worker, StepClock::Moment::backward);
    if (outcome.weight > 0) loss.backward(static_cast<float>(outcome.weight));
  }
  replicas_->end_gradients(worker);
  outcome.requests = detail::requested_in_step();
  note(worker, StepClock::Moment::exchange);
  if (settings_.split.wants_times()) {
    const Device device = replicas_->device(worker);
    backend(device).synchronize(device);
    outcome.seconds = watch.lap();
  }
  return outcome;
}

void ParallelUpdater::sum_gradients() {
  replicas_->sum_gradients(*threads_);
  // If weights are copied, all workers but the first wait for them.
  const std::size_t ready = replicas_->share_weights() ? losses_.size() : 1;
  for (std::size_t worker = 0; worker < ready; ++worker) note(worker, StepClock::Moment::update);
}

Batch ParallelUpdater::read() {
  for (DeviceClock& clock : clocks_) clock.resume();
  const PhaseScope loading(Phase::loading);
  return iterator_->next();
}

void ParallelUpdater::update(Observation& observation) {
  const Batch batch = read();
  const std::vector<std::int64_t> parts = settings_.split.parts(batch.size());
  std::vector<Outcome> outcomes(parts.size());
  if (batch.global_size() != 0) {
    StepScope step;
    replicas_->check_model();
    optimizer_.agree_on_step(batch.weight());
    replicas_->follow_arena();
    run_parts(batch, parts, [&](std::size_t worker, const Batch& part) {
      random_[worker]->follow(part.epoch(), part.ids());
      outcomes[worker] = compute_gradients(worker, part);
    });
    // A worker's part of a step succeeds only if the whole step does.
    for (const Outcome& outcome : outcomes)
      for (const auto& request : outcome.requests) detail::request_after_step(request);
    sum_gradients();
    optimizer_.set_examples(batch.weight());  // it has seen the first worker's only
    optimizer_.update(optimizer_.exchange(batch.counted() ? std::nullopt : batch.global_size()),
                      [this](const ApplyRange& apply, std::int64_t count) {
                        replicas_->update(*threads_, apply, count);
                      });
    step.succeeded();
  }
  if (!replicas_->share_weights())
    for (std::size_t worker = 1; worker < losses_.size(); ++worker)
      note(worker, StepClock::Moment::update);
  for (DeviceClock& clock : clocks_) {
    clock.note(StepClock::Moment::end);
    clock.step_done();
  }
  position_ = {position_.iteration + 1, iterator_->state()};
  if (batch.size() == 0) return;

  for (std::size_t worker = 0; worker < parts.size(); ++worker) {
    const Outcome& outcome = outcomes[worker];
    if (outcome.weight == 0) continue;
    observation.add_mean(settings_.prefix + "loss", outcome.loss, outcome.weight);
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
    log_info("iteration {}: batches are now split {}, by the workers' measured speeds", iteration(),
             settings_.split.text());
}

LossFunction ParallelUpdater::evaluation_loss() {
  return [this](const Batch& batch, Observation& report) { return evaluate(batch, report); };
}

Variable ParallelUpdater::evaluate(const Batch& batch, Observation& report) {
  replicas_->copy_buffers();
  const std::vector<std::int64_t> parts = settings_.split.parts(batch.size());
  std::vector<Outcome> outcomes(parts.size());
  run_parts(batch, parts, [&](std::size_t worker, const Batch& part) {
    Outcome& outcome = outcomes[worker];
    outcome.weight = part.weight();
    if (part.size() == 0) return;
    const NoGrad no_grad;
    const TrainingMode evaluation(false);
    outcome.loss =
        naming_examples(part, [&] { return losses_[worker](part, outcome.reported).value(); });
  });
  // On the first worker's device, without waiting for it.
  const Device device = replicas_->device(0);
  const Tensor loss_sum = Tensor::zeros({}, DType::float64, device);
  for (const Outcome& outcome : outcomes) {
    if (outcome.weight > 0)
      backend(device).accumulate_scalar(loss_sum, outcome.loss.to(device),
                                        static_cast<double>(outcome.weight));
    report.add(outcome.reported);
  }
  const Tensor mean = Tensor::zeros({}, DType::float64, device);
  backend(device).accumulate_scalar(
      mean, loss_sum, 1 / static_cast<double>(std::max<std::int64_t>(1, batch.weight())));
  return Variable(mean);
}

void ParallelUpdater::serialize(const Serializer& serializer) {
  serialize_position(serializer, {settings_.seed, 1}, position_, *iterator_);
  serialize_optimizers(serializer, {{"main", &optimizer_}}, position_.data.epoch);
  serialize_split(serializer["workers"]);
  if (!serializer.is_loading()) return;
  replicas_->follow_arena();
  replicas_->copy_weights();
}

// A resumed run starts with the split that this one has found.
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
