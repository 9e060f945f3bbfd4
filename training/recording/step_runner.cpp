#include "training/recording/step_runner.hpp"

#include <algorithm>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "tensor/clock_scope.hpp"
#include "training/device_clock.hpp"
#include "training/recording/gpu_steps.hpp"

namespace tasuki {
namespace {

bool is_on_cpu(const Batch& batch) {
  return std::ranges::all_of(batch.fields(), [](const BatchField& field) {
    return !field.source && field.values.device().is_cpu() &&
           (!field.lengths || field.lengths.device().is_cpu());
  });
}

std::vector<const Module*> models_of(const std::vector<Optimizer*>& optimizers) {
  std::vector<const Module*> models;
  models.reserve(optimizers.size());
  for (const Optimizer* optimizer : optimizers) models.push_back(&optimizer->model());
  return models;
}

Device device_of(const std::vector<Optimizer*>& optimizers) {
  TASUKI_CHECK(!optimizers.empty(), "training steps need an optimizer");
  const Device device = optimizers.front()->arena().values().device();
  for (const Optimizer* optimizer : optimizers)
    TASUKI_CHECK(optimizer->arena().values().device() == device,
                 "the optimizers of a step must be on one device, not on {} and {}", device.text(),
                 optimizer->arena().values().device().text());
  return device;
}

Tensor tensor_of(const std::unique_ptr<DeviceClock>& clock) {
  return clock ? clock->tensor() : Tensor();
}

}  // namespace

StepRunner::StepRunner(Device device, const std::vector<Optimizer*>& optimizers,
                       std::vector<const Module*> models, const Settings& settings)
    : device_(device),
      optimizer_(optimizers.empty() ? nullptr : optimizers.front()),
      evaluated_type_(settings.activations) {
  if (!device_.is_cpu())
    on_gpu_ = std::make_unique<GpuSteps>(device_, optimizers, std::move(models), settings);
  else
    measure_times();
}

StepRunner::StepRunner(const std::vector<Optimizer*>& optimizers, const Settings& settings)
    : StepRunner(device_of(optimizers), optimizers, models_of(optimizers), settings) {}

StepRunner::StepRunner(const Module& model, const Settings& settings)
    : StepRunner(model.device(), {}, {&model}, settings) {}

StepRunner::~StepRunner() = default;

Batch StepRunner::read(Iterator& iterator) {
  if (clock_) clock_->resume();
  const PhaseScope loading(Phase::loading);
  return iterator.next();
}

void StepRunner::run(const Batch& batch, Observation& observation, const Work& work,
                     const std::string& prefix, bool ends_step) {
  StepScope step;
  const int number = step_ == StepScope::number() ? batches_ : 0;
  step_ = ends_step ? 0 : StepScope::number();
  batches_ = number + 1;
  if (on_gpu_) {
    on_gpu_->run(batch, observation, work, prefix, {number, ends_step});
  } else if (batch.global_size() != 0) {
    const Batch here = on_cpu(batch);
    Observation seen;
    {
      const ClockScope timed(tensor_of(clock_));
      work(here, seen);
      note_moment(StepClock::Moment::end);
    }
    observation.add(seen, prefix);
  }
  step.succeeded();
  if (clock_ && ends_step) clock_->step_done();
}

Batch StepRunner::on_cpu(const Batch& batch) const {
  if (has_16_bits(activations())) return batch.to(Device::cpu(), activations());
  return is_on_cpu(batch) ? batch : batch.to(Device::cpu());
}

DType StepRunner::activations() const {
  return optimizer_ == nullptr ? evaluated_type_ : optimizer_->compute_type();
}

void StepRunner::forget() {
  if (on_gpu_) on_gpu_->forget();
}

const std::string& StepRunner::why_not_recorded() const {
  static const std::string nothing;
  return on_gpu_ ? on_gpu_->why_not_recorded() : nothing;
}

std::int64_t StepRunner::recordings() const {
  return on_gpu_ ? on_gpu_->recordings() : 0;
}

void StepRunner::measure_times() {
  if (clock_ || optimizer_ == nullptr) return;
  clock_ = std::make_unique<DeviceClock>(device_);
  if (on_gpu_) on_gpu_->measure(clock_->tensor());
}

StepTimes StepRunner::times() const {
  return clock_ ? clock_->times() : StepTimes{};
}

}  // namespace tasuki
