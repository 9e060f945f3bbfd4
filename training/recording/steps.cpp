#include "tasuki/training/recording/steps.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/core/stopwatch.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/step_clock_scope.hpp"
#include "tasuki/training/recording/field_memory.hpp"
#include "tasuki/training/recording/journal.hpp"
#include "tasuki/training/recording/kind_recorder.hpp"
#include "tasuki/training/recording/step_kinds.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t most_scalars = 16;  // of a step
// Steps of a kind before one is recorded, in which libraries choose algorithms and connect: for the
// first kind, and for later ones, when libraries have little left to prepare.
constexpr int first_warm_up = 3, later_warm_up = 1;

enum Readiness : int { not_recorded = 0, too_few_runs = 1, to_be_recorded = 2, recorded = 3 };

bool has_source(const Batch& batch) {
  return std::ranges::any_of(batch.fields(),
                             [](const BatchField& field) { return field.source != nullptr; });
}

bool is_on(const Batch& batch, Device device) {
  return std::ranges::all_of(batch.fields(), [device](const BatchField& field) {
    return !field.source && field.values.device() == device &&
           (!field.lengths || field.lengths.device() == device);
  });
}

}  // namespace

class Steps::Implementation {
 public:
  Implementation(Device device, std::vector<Optimizer*> optimizers,
                 std::vector<const Module*> models, const Settings& settings)
      : device_(device),
        optimizers_(std::move(optimizers)),
        models_(std::move(models)),
        settings_(settings),
        fields_(device_),
        kinds_(settings.most_recordings) {
    if (!device_.is_cpu()) journal_.emplace(device_, most_scalars);
    if (!optimizers_.empty()) clock_ = Tensor::zeros({step_clock_values}, DType::float64, device_);
  }

  Device device() const { return device_; }
  const std::string& reason() const { return reason_; }
  std::int64_t recordings() const { return recordings_; }
  void forget() { kinds_.clear(); }
  StepTimes times() const { return clock_ ? read_step_clock(clock_, steps_) : StepTimes{}; }

  Batch read(Iterator& iterator) {
    // The time between two steps counts only on a CPU; a GPU may be busy with the last step
    // meanwhile.
    if (clock_ && (device_.is_cpu() || since_step_.lap() > longest_pause)) note(StepMoment::resume);
    const PhaseScope loading(Phase::loading);
    return iterator.next();
  }

  void run(const Batch& batch, Observation& observation, const Work& work,
           const std::string& prefix) {
    StepScope step;
    if (device_.is_cpu())
      run_on_host(batch, observation, work, prefix);
    else
      run_on_device(batch, observation, work, prefix);
    step.succeeded();
    ++steps_;
    since_step_.lap();
  }

 private:
  // --- on a CPU ---

  void run_on_host(const Batch& batch, Observation& observation, const Work& work,
                   const std::string& prefix) {
    if (batch.global_size() == 0) return;
    Observation seen;
    ask_for(work, is_on(batch, device_) ? batch : batch.to(device_), seen);
    observation.add(seen, prefix);
  }

  void note(StepMoment moment) const {
    if (clock_) backend(device_).stamp(clock_, moment);
  }

  void ask_for(const Work& work, const Batch& batch, Observation& seen) const {
    if (!clock_) return work(batch, seen);
    const StepClockScope scope(clock_);
    note(StepMoment::begin);
    work(batch, seen);
    note(StepMoment::end);
  }

  // --- on a GPU ---

  struct Step {
    Batch batch;  // with the number of examples of all ranks
    StepKind& kind;
    const Work& work;
  };

  void run_on_device(const Batch& batch, Observation& observation, const Work& work,
                     const std::string& prefix) {
    Batch known = batch;
    if (!known.global_size()) known.set_global_size(sum_over_ranks(batch.size()));
    const std::int64_t global_examples = known.global_size().value();
    if (global_examples == 0) return;
    StepKind& kind =
        kinds_.find(kind_of(known, optimizers_.empty() ? batch.size() : global_examples));
    const Step step{std::move(known), kind, work};

    if (kind.recording && !kind.recording->is_valid(parts_of(models_)))
      kinds_.drop_invalid(parts_of(models_));
    int readiness = readiness_of(kind);
    for (Optimizer* optimizer : optimizers_)
      readiness = optimizer->meet({batch.size(), readiness}).readiness;
    // Parameters may have moved, and then on all ranks.
    if (kind.recording && !kind.recording->is_valid()) kinds_.drop_invalid(parts_of(models_));
    if (readiness == to_be_recorded) record(step);
    if (readiness >= to_be_recorded && kind.recording)
      replay(step);
    else
      do_once(step);
    kind.report.deliver(*journal_, observation, prefix);
    if (kind.report.has_numbers_of_host())
      refuse("the loss function reports values that the host computes in each step");
    make_room();
  }

  void make_room() {
    const bool were_too_many = kinds_.are_too_many();
    kinds_.make_room();
    if (kinds_.are_too_many() && !were_too_many && settings_.graph == GraphMode::automatic)
      log_verbose(
          "steps of new shapes are no longer recorded as graphs: the last {} recordings were not "
          "replayed before others needed their room; a larger pad_to of ragged fields makes fewer "
          "shapes",
          settings_.most_recordings);
  }

  int readiness_of(const StepKind& kind) const {
    if (!may_record()) return not_recorded;
    // A step in which parameters get their shape differs from the others.
    for (const Optimizer* optimizer : optimizers_)
      if (!optimizer->arena().unshaped().empty()) return not_recorded;
    if (kind.recording) return recorded;
    if (kinds_.are_too_many() && settings_.graph == GraphMode::automatic) return not_recorded;
    const int warm_up = recordings_ == 0 ? first_warm_up : later_warm_up;
    return kind.runs >= warm_up ? to_be_recorded : too_few_runs;
  }

  bool may_record() const { return settings_.graph != GraphMode::off && reason_.empty(); }

  // From now on steps are not recorded.
  void refuse(const std::string& reason) {
    if (!may_record()) return;
    if (settings_.graph == GraphMode::on)
      fail(ErrorKind::config, "--graph on: steps cannot be recorded as a graph: {}", reason);
    reason_ = reason;
    kinds_.drop_recordings();
    log_verbose("steps are not recorded as a graph: {}", reason);
  }

  // Only device work, the same in all steps of a kind. `batch`: its fields are on the device, or
  // have sources there.
  void ask_for_step(const Step& step, const Batch& batch) {
    Observation seen;
    const DType type = activations();
    const auto on_device = [&](const Batch& placed, Observation& found) {
      // A rank without examples only takes part in the exchange.
      if (placed.size() == 0) return step.work(placed, found);
      step.work(placed.to(device_, type, step.kind.numbers->batch_rows()), found);
    };
    ask_for(on_device, batch, seen);
    step.kind.report.post(seen, *journal_, step.kind.numbers->journal_row().reshape({}));
  }

  void do_once(const Step& step) {
    StepKind& kind = step.kind;
    ++kind.runs;
    prepare_numbers(kind, step.batch);
    kind.numbers->send();
    const Batch placed = fields_.place_those_of_host(step.batch);
    KindRecorder recorder(device_, kind, false);
    {
      const StepRecorderScope scope(recorder);
      ask_for_step(step, placed);
    }
    if (!recorder.refused().empty()) refuse(recorder.refused());
  }

  void record(const Step& step) {
    StepKind& kind = step.kind;
    kind.recording.reset();
    prepare_numbers(kind, step.batch);
    auto made = std::make_unique<RecordedStep>();
    std::string reason = "the device cannot record";
    try {
      const Batch placed = fields_.place_all(step.batch);
      KindRecorder recorder(device_, kind, true);
      made->work = backend(device_).record(device_, [&] {
        const StepRecorderScope scope(recorder);
        ask_for_step(step, placed);
      });
      made->fields = placed.fields();
      made->dependencies = recorder.take_dependencies();
      made->requests = detail::requested_in_step();
      made->parts = parts_of(models_);
      made->numbers = kind.numbers;
    } catch (const Error& error) {
      made->work.reset();
      reason = error.what();
    }
    const bool is_recorded = made->work != nullptr;
    if (!all_ranks(is_recorded)) {
      if (is_recorded) reason = "another rank could not record its part";
      made.reset();
      refuse(reason);
      return;
    }
    kind.recording = std::move(made);
    ++recordings_;
  }

  void replay(const Step& step) {
    RecordedStep& recording = *step.kind.recording;
    ++recording.replays;
    recording.numbers->fill(journal_->next_row(), rows_of(step.batch));
    recording.numbers->send();
    for (std::size_t i = 0; i < recording.fields.size(); ++i)
      copy_field(step.batch.fields()[i], recording.fields[i]);
    recording.work->replay();
    for (const auto& request : recording.requests) detail::request_after_step(request);
  }

  // --- a batch on its way to the device ---

  static std::vector<std::int64_t> rows_of(const Batch& batch) {
    return has_source(batch) ? batch.rows() : std::vector<std::int64_t>();
  }

  void prepare_numbers(StepKind& kind, const Batch& batch) {
    const std::vector<std::int64_t> rows = rows_of(batch);
    // If an owner of late values is gone, the step's late values are found anew.
    if (!kind.numbers || !kind.numbers->is_valid())
      kind.numbers = std::make_shared<NumberBlock>(device_, std::ssize(rows));
    // Recorded work keeps reading its numbers at their old places.
    if (kind.recording && kind.recording->numbers == kind.numbers)
      kind.numbers = kind.numbers->grown(0);
    kind.numbers->fill(journal_->next_row(), rows);
  }

  DType activations() const {
    return optimizers_.empty() ? settings_.activations : optimizers_.front()->compute_type();
  }

  // --- other ranks ---

  Communicator* communicator() const {
    for (const Optimizer* optimizer : optimizers_)
      if (optimizer->communicator() != nullptr && optimizer->communicator()->size() > 1)
        return optimizer->communicator();
    return nullptr;
  }
  std::int64_t sum_over_ranks(std::int64_t own) const {
    Communicator* const ranks = communicator();
    if (ranks == nullptr) return own;
    const Tensor sum = Tensor::from(std::span<const std::int64_t>(&own, 1), Shape{});
    ranks->allreduce(sum);
    return *sum.data<std::int64_t>();
  }
  bool all_ranks(bool yes) const { return sum_over_ranks(yes ? 0 : 1) == 0; }

  Device device_;
  std::vector<Optimizer*> optimizers_;
  std::vector<const Module*> models_;
  Settings settings_;
  std::string reason_;
  std::int64_t recordings_ = 0, steps_ = 0;
  Tensor clock_;  // of trainings
  Stopwatch since_step_;
  FieldMemory fields_;
  std::optional<Journal> journal_;  // not on a CPU
  StepKinds kinds_;
};

namespace {

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

}  // namespace

Steps::Steps(const std::vector<Optimizer*>& optimizers, const Settings& settings)
    : implementation_(std::make_unique<Implementation>(device_of(optimizers), optimizers,
                                                       models_of(optimizers), settings)) {}

Steps::Steps(const Module& model, const Settings& settings)
    : implementation_(std::make_unique<Implementation>(model.device(), std::vector<Optimizer*>(),
                                                       std::vector{&model}, settings)) {}

Steps::~Steps() = default;

Device Steps::device() const {
  return implementation_->device();
}

Batch Steps::read(Iterator& iterator) {
  return implementation_->read(iterator);
}

void Steps::run(const Batch& batch, Observation& observation, const Work& work,
                const std::string& prefix) {
  implementation_->run(batch, observation, work, prefix);
}

void Steps::forget() {
  implementation_->forget();
}

const std::string& Steps::why_not_recorded() const {
  return implementation_->reason();
}

std::int64_t Steps::recordings() const {
  return implementation_->recordings();
}

StepTimes Steps::times() const {
  return implementation_->times();
}

}  // namespace tasuki
