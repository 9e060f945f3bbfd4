#include "program/engine.hpp"

#include <utility>
#include <vector>

#include "program/workers.hpp"
#include "training/batch_memory.hpp"
#include "training/workers/parallel_updater.hpp"

namespace tasuki::program {
namespace {

// One device per rank.
class RankEngine final : public Engine {
 public:
  explicit RankEngine(const EngineParts& parts) : parts_(parts) {
    const ModelGrid& grid = *parts.setup.grid;
    for (const NamedOptimizer& each : parts.optimizers) {
      if (parts.precision.scales_losses)
        each.optimizer->guard().scale_losses({}, grid.is_divided() ? &grid.model() : nullptr);
      if (parts.program.settings.on_nan == OnNan::skip)
        each.optimizer->guard().skip_non_finite(grid.is_divided() ? &grid.model() : nullptr);
      each.optimizer->compute_in(parts.precision.activations);
    }
  }

  Device batch_device() const override { return parts_.setup.device(); }

  std::unique_ptr<Updater> create_updater(std::unique_ptr<Iterator> batches) override {
    const TrainingSettings& settings = parts_.program.settings;
    StandardUpdater::Settings updating;
    updating.seed = static_cast<std::uint64_t>(settings.seed);
    updating.graph = settings.graph;
    updating.accumulate = settings.accumulate;
    if (parts_.setup.grid->is_divided()) updating.all_ranks = parts_.setup.communicator.get();
    updating.has_loss = parts_.model.has_loss;
    updating.evaluated_model = parts_.model.model.get();
    if (parts_.program.create_updater)
      return parts_.program.create_updater({std::move(batches), parts_.optimizers, updating});
    return std::make_unique<StandardUpdater>(
        std::move(batches), *parts_.optimizers.front().optimizer, parts_.model.loss, updating);
  }

  LossFunction evaluation_loss() override { return parts_.model.loss; }

  void step_on_zeros(std::int64_t n, const DatasetHeader& examples) override {
    const Device device = batch_device();
    measure_step(n, examples, device, parts_.precision.on(device), parts_.model.loss);
  }

 private:
  EngineParts parts_;
};

// Batches of zeros, of any size.
class ZeroBatches final : public Iterator {
 public:
  void set(std::int64_t n, const DatasetHeader& examples) {
    size_ = n;
    header_ = examples;
  }
  Batch next() override { return zero_batch(size_, header_, DType::float32, Device::cpu()); }
  std::int64_t steps_per_epoch() const override { return 1; }
  EpochLayout layout() const override { return {}; }
  IteratorState state() const override { return {}; }
  void restore(const IteratorState& /*state*/) override {}

 private:
  DatasetHeader header_;
  std::int64_t size_ = 1;
};

// Several devices in one process. Each worker keeps its own rounded weights.
class WorkerEngine final : public Engine {
 public:
  explicit WorkerEngine(const EngineParts& parts) : parts_(parts) {}

  // Parts of a batch are dealt from there.
  Device batch_device() const override { return Device::cpu(); }

  std::unique_ptr<Updater> create_updater(std::unique_ptr<Iterator> batches) override {
    const TrainingSettings& settings = parts_.program.settings;
    const std::vector<Device>& devices = settings.workers->devices;
    const int threads =
        threads_of_worker(parts_.setup.processors, parts_.setup.threads, devices.size());
    std::vector<ParallelUpdater::Worker> workers = {
        {*parts_.model.model, parts_.model.loss, threads}};
    further_.clear();
    for (std::size_t i = 1; i < devices.size(); ++i) {
      TrainingModel& copy = further_.emplace_back(parts_.program.create_model(parts_.data));
      copy.model->to(devices[i]);
      workers.push_back({*copy.model, copy.loss, threads});
    }
    ParallelUpdater::Settings updating;
    updating.seed = static_cast<std::uint64_t>(settings.seed);
    updating.split = split_of(*settings.workers);
    updating.activations = parts_.precision.activations;
    auto updater = std::make_unique<ParallelUpdater>(
        std::move(batches), *parts_.optimizers.front().optimizer, std::move(workers), updating);
    evaluation_loss_ = updater->evaluation_loss();
    return updater;
  }

  LossFunction evaluation_loss() override { return evaluation_loss_; }

  void step_on_zeros(std::int64_t n, const DatasetHeader& examples) override {
    if (!trial_) {
      auto batches = std::make_unique<ZeroBatches>();
      trial_batches_ = batches.get();
      trial_ = create_updater(std::move(batches));
    }
    trial_batches_->set(n, examples);
    Observation unused;
    trial_->update(unused);
  }

 private:
  EngineParts parts_;
  std::vector<TrainingModel> further_;  // of all workers but the first
  LossFunction evaluation_loss_;
  std::unique_ptr<Updater> trial_;
  ZeroBatches* trial_batches_ = nullptr;  // the trial's
};

}  // namespace

std::unique_ptr<Engine> create_engine(const EngineParts& parts) {
  if (parts.program.settings.workers) return std::make_unique<WorkerEngine>(parts);
  return std::make_unique<RankEngine>(parts);
}

}  // namespace tasuki::program
