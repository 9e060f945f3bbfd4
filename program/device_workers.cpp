#include "program/device_workers.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "program/flags/flag_groups.hpp"
#include "program/start/device.hpp"
#include "training/batch_memory.hpp"
#include "training/workers/batch_split.hpp"
#include "training/workers/parallel_updater.hpp"

namespace tasuki::program {
namespace {

// A fixed split needs a part for each device, one of them above 0; anything else is a usage error.
BatchSplit split_of(const WorkerSettings& settings) {
  using Split = WorkerSettings::Split;
  const std::size_t workers = settings.devices.size();
  if (settings.split == Split::even) return BatchSplit::even(workers);
  if (settings.split == Split::measured) return BatchSplit::measured(workers);
  if (settings.parts.size() != workers || std::ranges::max(settings.parts) <= 0)
    fail_everywhere(
        ErrorKind::usage,
        "--split: expected a part for each of {} devices, at least one of them above 0, found '{}'",
        workers, split_text(settings));
  return BatchSplit::fixed(settings.parts);
}

}  // namespace

// Batches of zeros, of any size.
class Workers::ZeroBatches final : public Iterator {
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

Workers::Workers(const TrainingProgram& program, const RankSetup& setup,
                 std::function<TrainingModel()> create_copy, TrainingModel& model,
                 Optimizer& optimizer)
    : program_(program),
      setup_(setup),
      create_copy_(std::move(create_copy)),
      model_(model),
      optimizer_(optimizer) {}

Workers::~Workers() = default;

std::unique_ptr<Updater> Workers::create_updater(std::unique_ptr<Iterator> batches) {
  const TrainingSettings& settings = program_.settings;
  const std::vector<Device>& devices = settings.workers->devices;
  const int threads = threads_of_worker(setup_.processors, setup_.threads, devices.size());
  std::vector<ParallelUpdater::Worker> workers = {{*model_.model, model_.loss, threads}};
  copies_.clear();
  for (std::size_t i = 1; i < devices.size(); ++i) {
    TrainingModel& copy = copies_.emplace_back(create_copy_());
    copy.model->to(devices[i]);
    workers.push_back({*copy.model, copy.loss, threads});
  }
  ParallelUpdater::Settings updating;
  updating.seed = static_cast<std::uint64_t>(settings.seed);
  updating.split = split_of(*settings.workers);
  updating.activations = setup_.precision.activations;
  auto updater = std::make_unique<ParallelUpdater>(std::move(batches), optimizer_,
                                                   std::move(workers), updating);
  evaluation_loss_ = updater->evaluation_loss();
  return updater;
}

void Workers::step_on_zeros(std::int64_t n, const DatasetHeader& examples) {
  if (!trial_) {
    auto batches = std::make_unique<ZeroBatches>();
    trial_batches_ = batches.get();
    trial_ = create_updater(std::move(batches));
  }
  trial_batches_->set(n, examples);
  Observation unused;
  trial_->update(unused);
}

}  // namespace tasuki::program
