#include "training/recording/gpu_steps.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "tensor/backend.hpp"
#include "tensor/clock_scope.hpp"
#include "tensor/recorder.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t usual_scalars = 16;  // of a step, for which there is room at first
// Steps of a kind before one is recorded, in which libraries choose algorithms and connect: for the
// first kind, and for later ones, when libraries have little left to prepare.
constexpr int first_warm_up = 3, later_warm_up = 1;

enum Readiness : int { not_recorded = 0, too_few_runs = 1, to_be_recorded = 2, recorded = 3 };

bool has_source(const Batch& batch) {
  return std::ranges::any_of(batch.fields(),
                             [](const BatchField& field) { return field.source != nullptr; });
}

std::vector<std::int64_t> rows_of(const Batch& batch) {
  return has_source(batch) ? batch.rows() : std::vector<std::int64_t>();
}

// Collects late values and revisions of a step while its work is queued.
class KindRecorder final : public Recorder {
 public:
  // The kind's numbers must exist and be filled for this step.
  KindRecorder(Device device, BatchKind& kind, bool is_recording)
      : device_(device), kind_(kind), is_recording_(is_recording) {}

  Device device() const override { return device_; }
  bool is_recording() const override { return is_recording_; }
  Tensor place(const std::shared_ptr<detail::LateState>& values, std::int64_t count) override;
  void use(const std::shared_ptr<const detail::RevisionState>& revision) override;
  void refuse(std::string_view reason) override;

  // Why steps of this kind cannot be recorded; empty if they can, as far as is known.
  const std::string& refused() const { return refused_; }
  std::vector<RecordedStep::Dependency> take_dependencies() { return std::move(dependencies_); }

 private:
  Device device_;
  BatchKind& kind_;
  bool is_recording_;
  std::string refused_;
  std::vector<RecordedStep::Dependency> dependencies_;
};

Tensor KindRecorder::place(const std::shared_ptr<detail::LateState>& values, std::int64_t count) {
  NumberBlock::Found found = kind_.numbers->place(values, count);
  if (!found.values) {
    if (is_recording_) throw RecordingRefused("it uses more numbers than the steps before it");
    const auto bytes = count * static_cast<std::int64_t>(size_of(values->dtype()));
    kind_.numbers = kind_.numbers->grown(bytes);
    found = kind_.numbers->place(values, count);
    kind_.numbers->send();
  } else if (found.is_new && !is_recording_) {
    kind_.numbers->send_newest();
  }
  return found.values;
}

void KindRecorder::use(const std::shared_ptr<const detail::RevisionState>& revision) {
  if (std::ranges::find(dependencies_, revision, &RecordedStep::Dependency::revision) ==
      dependencies_.end())
    dependencies_.push_back({revision, revision->number});
}

void KindRecorder::refuse(std::string_view reason) {
  if (!is_recording_ && refused_.empty()) refused_ = reason;
}

}  // namespace

GpuSteps::GpuSteps(Device device, std::vector<Optimizer*> optimizers,
                   std::vector<const Module*> models, const Settings& settings)
    : device_(device),
      optimizers_(std::move(optimizers)),
      models_(std::move(models)),
      settings_(settings),
      fields_(device_),
      journal_(device_, usual_scalars),
      kinds_(settings.most_recordings) {}

void GpuSteps::measure(const Tensor& clock) {
  clock_ = clock;
  forget();  // recordings that do not note the time
}

void GpuSteps::run(const Batch& batch, Observation& observation, const Work& work,
                   const std::string& prefix, Place place) {
  // Replays would leave out what the host knows of gradients that later batches add to.
  if (!place.is_only()) refuse("a step has several batches");
  Batch known = batch;
  if (!known.global_size()) known.set_global_size(sum_over_ranks(batch.size()));
  const std::int64_t global_examples = known.global_size().value();
  // The last batch of several exchanges and updates for all of them.
  if (global_examples == 0 && (place.is_only() || !place.is_last)) return;
  std::string name = kind_of(known, optimizers_.empty() ? batch.size() : global_examples);
  // Late gradients travel with a scale of their own, besides that of this batch in kind_of().
  for (const Optimizer* optimizer : optimizers_)
    if (const std::string more = optimizer->step_exchange().kind_of_step(); !more.empty())
      name += "|" + more;
  // Each batch of a step has late values of its own; those of the update belong to the last.
  if (!place.is_only()) name += fmt::format("|batch {}{}", place.number, place.is_last ? "" : "+");
  BatchKind& kind = kinds_.find(name);
  const Step step{std::move(known), kind, work};

  if (kind.recording && !kind.recording->is_valid(parts_of(models_)))
    kinds_.drop_invalid(parts_of(models_));
  int readiness = readiness_of(kind);
  for (Optimizer* optimizer : optimizers_)
    readiness =
        optimizer->agree_on_step(batch.weight(), readiness, place.number > 0).least_readiness;
  // Parameters may have moved, and then on all ranks.
  if (kind.recording && !kind.recording->is_valid()) kinds_.drop_invalid(parts_of(models_));
  const auto is_settled = [](const Optimizer* each) { return each->step_exchange().is_settled(); };
  if (!std::ranges::all_of(optimizers_, is_settled))
    readiness = std::min<int>(readiness, too_few_runs);
  if (readiness == to_be_recorded) record(step);
  if (readiness >= to_be_recorded && kind.recording)
    replay(step);
  else
    do_once(step);
  kind.report.deliver(journal_, observation, prefix);
  if (kind.report.has_numbers_of_host())
    refuse("the loss function reports values that the host computes in each step");
  make_room();
}

int GpuSteps::readiness_of(const BatchKind& kind) const {
  if (!may_record()) return not_recorded;
  // A step in which parameters get their shape differs from the others.
  for (const Optimizer* optimizer : optimizers_)
    if (!optimizer->arena().unshaped().empty()) return not_recorded;
  if (kind.recording) return recorded;
  if (kinds_.are_too_many() && settings_.graph == GraphMode::automatic) return not_recorded;
  const int warm_up = recordings_ == 0 ? first_warm_up : later_warm_up;
  return kind.runs >= warm_up ? to_be_recorded : too_few_runs;
}

void GpuSteps::refuse(const std::string& reason) {
  if (!may_record()) return;
  if (settings_.graph == GraphMode::on)
    fail(ErrorKind::config, "--graph on: steps cannot be recorded as a graph: {}", reason);
  reason_ = reason;
  kinds_.drop_recordings();
  log_verbose("steps are not recorded as a graph: {}", reason);
}

void GpuSteps::make_room() {
  const bool were_too_many = kinds_.are_too_many();
  kinds_.make_room();
  if (kinds_.are_too_many() && !were_too_many && settings_.graph == GraphMode::automatic)
    log_verbose(
        "steps of new shapes are no longer recorded as graphs: the last {} recordings were not "
        "replayed before others needed their room; a larger pad_to of ragged fields makes fewer "
        "shapes",
        settings_.most_recordings);
}

// --- a step: done once, recorded, replayed ---

void GpuSteps::ask_for_step(const Step& step, const Batch& batch) {
  Observation seen;
  const DType type = activations();
  {
    const ClockScope timed(clock_);
    // A rank without examples only takes part in the exchange, and in the messages of layers.
    if (batch.size() == 0 && std::ranges::none_of(models_, &Module::communicates))
      step.work(batch, seen);
    else
      step.work(batch.to(device_, type, step.kind.numbers->batch_rows()), seen);
  }
  const std::vector<Tensor> scalars = step.kind.report.take(seen);
  if (std::ssize(scalars) > journal_.columns()) widen_journal(std::ssize(scalars));
  journal_.post(step.kind.numbers->journal_row().reshape({}), scalars, clock_);
}

void GpuSteps::widen_journal(std::int64_t columns) {
  if (current_recorder()->is_recording())
    throw RecordingRefused("it reports more numbers than the steps before it");
  kinds_.drop_recordings();  // which write to the narrower one
  journal_ = journal_.widened(std::max(columns, 2 * journal_.columns()));
}

void GpuSteps::do_once(const Step& step) {
  BatchKind& kind = step.kind;
  ++kind.runs;
  prepare_numbers(kind, step.batch);
  kind.numbers->send();
  const Batch placed = fields_.place_those_of_host(step.batch);
  KindRecorder recorder(device_, kind, false);
  {
    const RecorderScope scope(recorder);
    ask_for_step(step, placed);
  }
  if (!recorder.refused().empty()) refuse(recorder.refused());
}

void GpuSteps::record(const Step& step) {
  BatchKind& kind = step.kind;
  kind.recording.reset();
  prepare_numbers(kind, step.batch);
  auto made = std::make_unique<RecordedStep>();
  std::string reason = "the device cannot record";
  try {
    const Batch placed = fields_.place_all(step.batch);
    KindRecorder recorder(device_, kind, true);
    made->work = backend(device_).record(device_, [&] {
      const RecorderScope scope(recorder);
      ask_for_step(step, placed);
    });
    made->fields = placed.fields();
    made->dependencies = recorder.take_dependencies();
    made->requests = detail::requested_in_step();
    made->parts = parts_of(models_);
    made->numbers = kind.numbers;
  } catch (const Error& error) {
    made->work.reset();
    for (Optimizer* optimizer : optimizers_) optimizer->give_up_step();
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

void GpuSteps::replay(const Step& step) {
  RecordedStep& recording = *step.kind.recording;
  ++recording.replays;
  recording.numbers->fill(journal_.next_row(), rows_of(step.batch));
  recording.numbers->send();
  for (std::size_t i = 0; i < recording.fields.size(); ++i)
    copy_field(step.batch.fields()[i], recording.fields[i]);
  recording.work->replay();
  for (const auto& request : recording.requests) detail::request_after_step(request);
}

void GpuSteps::prepare_numbers(BatchKind& kind, const Batch& batch) {
  const std::vector<std::int64_t> rows = rows_of(batch);
  // If an owner of late values is gone, the step's late values are found anew.
  if (!kind.numbers || !kind.numbers->is_valid())
    kind.numbers = std::make_shared<NumberBlock>(device_, std::ssize(rows));
  // Recorded work keeps reading its numbers at their old places.
  if (kind.recording && kind.recording->numbers == kind.numbers)
    kind.numbers = kind.numbers->grown(0);
  kind.numbers->fill(journal_.next_row(), rows);
}

DType GpuSteps::activations() const {
  return optimizers_.empty() ? settings_.activations : optimizers_.front()->compute_type();
}

// --- other ranks ---

Communicator* GpuSteps::communicator() const {
  for (const Optimizer* optimizer : optimizers_)
    if (optimizer->communicator() != nullptr && optimizer->communicator()->size() > 1)
      return optimizer->communicator();
  return nullptr;
}

std::int64_t GpuSteps::sum_over_ranks(std::int64_t own) const {
  Communicator* const ranks = communicator();
  if (ranks == nullptr) return own;
  const Tensor sum = Tensor::from(std::span<const std::int64_t>(&own, 1), Shape{});
  ranks->allreduce(sum);
  return *sum.data<std::int64_t>();
}

}  // namespace tasuki
