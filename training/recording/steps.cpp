#include "tasuki/training/recording/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/core/stopwatch.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/step_clock_scope.hpp"
#include "tasuki/training/recording/journal.hpp"
#include "tasuki/training/recording/number_block.hpp"
#include "tasuki/training/recording/recorded_step.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t most_scalars = 16;  // of a step
// Steps of a kind before one is recorded, in which libraries choose algorithms and connect: of the
// first kind, and of later ones, for which they have little left to prepare.
constexpr int first_warm_up = 3, later_warm_up = 1;
// Kinds of steps that are remembered, for each recording that is kept.
constexpr std::size_t kinds_per_recording = 8;

enum Readiness : int { not_recorded = 0, too_few_runs = 1, to_be_recorded = 2, recorded = 3 };

// Steps of one kind ask their device for the same work.
std::string kind_of(const Batch& batch, std::int64_t global_examples) {
  std::string kind = fmt::format("{} of {}", batch.size(), global_examples);
  for (const BatchField& field : batch.fields()) {
    kind += fmt::format("|{} {}", field.name, field.is_target);
    if (field.source)
      kind += fmt::format(" {}", fmt::ptr(field.source.get()));
    else
      kind += fmt::format(" {} {}", field.values.shape().text(), name_of(field.values.dtype()));
    if (field.lengths) kind += " ragged";
  }
  return kind;
}

// What a step returns: scalars of the device by the journal's columns, and the rest.
struct Report {
  struct Column {
    std::string key;
    Observation::Part part;
    double factor;
  };
  std::vector<Column> columns;
  Observation rest;
  bool has_numbers_of_host = false;
};

struct Kind {
  int runs = 0;
  std::uint64_t last_used = 0;
  std::shared_ptr<NumberBlock> numbers;
  Report report;
  std::unique_ptr<RecordedStep> recording;
};

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

// Late values of one step, while its work is asked for.
class KindRecorder final : public StepRecorder {
 public:
  KindRecorder(Device device, Kind& kind, bool is_recording)
      : device_(device), kind_(kind), is_recording_(is_recording) {}

  Device device() const override { return device_; }
  bool is_recording() const override { return is_recording_; }

  Tensor place(const std::shared_ptr<detail::LateState>& values, std::int64_t count) override {
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
  void use(const std::shared_ptr<const detail::RevisionState>& revision) override {
    if (std::ranges::find(dependencies_, revision, &RecordedStep::Dependency::revision) ==
        dependencies_.end())
      dependencies_.push_back({revision, revision->number});
  }
  void refuse(std::string_view reason) override {
    if (!is_recording_ && refused_.empty()) refused_ = reason;
  }

  // Why steps of this kind cannot be recorded; empty where nothing is known of that.
  const std::string& refused() const { return refused_; }
  std::vector<RecordedStep::Dependency> take_dependencies() { return std::move(dependencies_); }

 private:
  Device device_;
  Kind& kind_;
  bool is_recording_;
  std::string refused_;
  std::vector<RecordedStep::Dependency> dependencies_;
};

}  // namespace

class Steps::Implementation {
 public:
  Implementation(Device device, std::vector<Optimizer*> optimizers,
                 std::vector<const Module*> models, const Settings& settings)
      : device_(device),
        optimizers_(std::move(optimizers)),
        models_(std::move(models)),
        settings_(settings) {
    if (!device_.is_cpu()) journal_.emplace(device_, most_scalars);
    if (!optimizers_.empty()) clock_ = Tensor::zeros({step_clock_values}, DType::float64, device_);
  }

  Device device() const { return device_; }
  const std::string& reason() const { return reason_; }
  std::int64_t recordings() const { return recordings_; }
  void forget() { kinds_.clear(); }
  StepTimes times() const { return clock_ ? read_step_clock(clock_, steps_) : StepTimes{}; }

  Batch read(Iterator& iterator) {
    // A CPU's time between two steps is its own; a GPU may be busy with the last one all the while.
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
    Kind& kind;
    const Work& work;
  };

  void run_on_device(const Batch& batch, Observation& observation, const Work& work,
                     const std::string& prefix) {
    Batch known = batch;
    if (!known.global_size()) known.set_global_size(sum_over_ranks(batch.size()));
    const std::int64_t global_examples = known.global_size().value();
    if (global_examples == 0) return;
    Kind& kind = find_kind(kind_of(known, optimizers_.empty() ? batch.size() : global_examples));
    const Step step{std::move(known), kind, work};

    if (kind.recording && !kind.recording->is_valid(parts_of(models_))) drop_invalid();
    int readiness = readiness_of(kind);
    for (Optimizer* optimizer : optimizers_)
      readiness = optimizer->meet({batch.size(), readiness}).readiness;
    // Parameters may have moved: on all ranks, then.
    if (kind.recording && !kind.recording->is_valid()) drop_invalid();
    if (readiness == to_be_recorded) record(step);
    if (readiness >= to_be_recorded && kind.recording)
      replay(step);
    else
      do_once(step);
    deliver(kind.report, observation, prefix);
    if (kind.report.has_numbers_of_host)
      refuse("what the loss function reports is computed by the host in each step");
    make_room();
  }

  int readiness_of(const Kind& kind) const {
    if (!may_record()) return not_recorded;
    // A step in which parameters get their shape is unlike the others.
    for (const Optimizer* optimizer : optimizers_)
      if (!optimizer->arena().unshaped().empty()) return not_recorded;
    if (kind.recording) return recorded;
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
    for (auto& [name, kind] : kinds_) kind.recording.reset();
    log_verbose("steps are not recorded as a graph: {}", reason);
  }

  // Device work alone, the same in all steps of a kind. `batch`: its fields are on the device, or
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
    post(seen, step.kind);
  }

  void do_once(const Step& step) {
    Kind& kind = step.kind;
    ++kind.runs;
    prepare_numbers(kind, step.batch);
    kind.numbers->send();
    const Batch placed = with_values_placed(step.batch, Values::of_host);
    KindRecorder recorder(device_, kind, false);
    {
      const StepRecorderScope scope(recorder);
      ask_for_step(step, placed);
    }
    if (!recorder.refused().empty()) refuse(recorder.refused());
  }

  void record(const Step& step) {
    Kind& kind = step.kind;
    kind.recording.reset();
    prepare_numbers(kind, step.batch);
    auto made = std::make_unique<RecordedStep>();
    std::string reason = "the device does not record";
    try {
      const Batch placed = with_values_placed(step.batch, Values::all);
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

  void prepare_numbers(Kind& kind, const Batch& batch) {
    const std::vector<std::int64_t> rows = rows_of(batch);
    // Where an owner of late values has gone, those of the step are found anew.
    if (!kind.numbers || !kind.numbers->is_valid())
      kind.numbers = std::make_shared<NumberBlock>(device_, std::ssize(rows));
    // Recorded work goes on reading where its numbers were.
    if (kind.recording && kind.recording->numbers == kind.numbers)
      kind.numbers = kind.numbers->grown(0);
    kind.numbers->fill(journal_->next_row(), rows);
  }

  // Work is recorded with values in memory that is filled anew in each step; other steps need that
  // for values that are not on the device.
  enum class Values : std::uint8_t { of_host, all };
  Batch with_values_placed(const Batch& batch, Values which) {
    Batch placed = batch;
    for (const BatchField& given : batch.fields()) {
      BatchField field = given;
      if (!given.source && (which == Values::all || given.values.device() != device_))
        field.values = memory_for(given.name, given.values);
      if (given.lengths && (which == Values::all || given.lengths.device() != device_))
        field.lengths = memory_for(given.name + " lengths", given.lengths);
      copy_field(given, field);
      placed.set(std::move(field));
    }
    return placed;
  }

  // The same memory for values of one name in all steps, as long as it is large enough: work on the
  // device is done in the order in which it was asked for. Recordings keep what they read.
  Tensor memory_for(const std::string& name, const Tensor& values) {
    Tensor& memory = memory_[name];
    const auto bytes = static_cast<std::int64_t>(values.bytes());
    if (!memory || memory.count() < bytes)
      memory = Tensor::empty({std::max<std::int64_t>(bytes, 1)}, DType::uint8, device_);
    return {memory.storage(), 0, values.shape(), values.dtype()};
  }

  static void copy_field(const BatchField& from, const BatchField& to) {
    if (!to.source && to.values.raw() != from.values.raw()) to.values.copy_from(from.values);
    if (to.lengths && to.lengths.raw() != from.lengths.raw()) to.lengths.copy_from(from.lengths);
  }

  DType activations() const {
    return optimizers_.empty() ? settings_.activations : optimizers_.front()->compute_type();
  }

  // --- what a step found ---

  void post(const Observation& found, Kind& kind) const {
    Report& report = kind.report;
    report = {};
    std::vector<Tensor> scalars;
    for (const auto& [key, value] : found.known()) {
      report.rest.add_known(key, value);
      if (found.terms(key, Observation::Part::sum).empty()) report.has_numbers_of_host = true;
      for (const auto part : {Observation::Part::sum, Observation::Part::count})
        for (const Observation::Term& term : found.terms(key, part)) {
          scalars.push_back(term.value);
          report.columns.push_back({key, part, term.factor});
        }
    }
    journal_->post(kind.numbers->journal_row().reshape({}), scalars);
  }

  void deliver(const Report& report, Observation& observation, const std::string& prefix) {
    journal_->open_row();
    Observation seen = report.rest;
    for (std::size_t i = 0; i < report.columns.size(); ++i) {
      const auto& [key, part, factor] = report.columns[i];
      seen.add_journal(key, part, journal_->cell(static_cast<std::int64_t>(i), factor));
    }
    observation.add(seen, prefix);
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

  // --- kinds of steps ---

  Kind& find_kind(const std::string& name) {
    Kind& kind = kinds_[name];
    kind.last_used = ++uses_;
    return kind;
  }

  void drop_invalid() {
    const ModelParts parts = parts_of(models_);
    for (auto& [name, each] : kinds_) {
      if (!each.recording || each.recording->is_valid(parts)) continue;
      each.recording.reset();
      each.runs = 0;
    }
  }

  void make_room() {
    const auto drop_oldest = [this](const auto& is_counted, std::size_t most, const auto& drop) {
      const auto counted = [&](const auto& entry) { return is_counted(entry.second); };
      while (static_cast<std::size_t>(std::ranges::count_if(kinds_, counted)) > most) {
        auto oldest = kinds_.end();
        for (auto at = kinds_.begin(); at != kinds_.end(); ++at)
          if (counted(*at) &&
              (oldest == kinds_.end() || at->second.last_used < oldest->second.last_used))
            oldest = at;
        drop(oldest);
      }
    };
    drop_oldest([](const Kind& kind) { return kind.recording != nullptr; },
                settings_.most_recordings,
                [](auto kind) {
                  kind->second.recording.reset();
                  kind->second.runs = 0;
                });
    drop_oldest([](const Kind&) { return true; }, settings_.most_recordings * kinds_per_recording,
                [this](auto kind) { kinds_.erase(kind); });
  }

  Device device_;
  std::vector<Optimizer*> optimizers_;
  std::vector<const Module*> models_;
  Settings settings_;
  std::string reason_;
  std::int64_t recordings_ = 0, steps_ = 0;
  std::uint64_t uses_ = 0;
  Tensor clock_;  // of trainings
  Stopwatch since_step_;
  std::map<std::string, Tensor> memory_;  // of values, by field
  std::optional<Journal> journal_;        // not on a CPU
  std::map<std::string, Kind> kinds_;
};

namespace {

std::vector<const Module*> models_of(const std::vector<Optimizer*>& optimizers) {
  std::vector<const Module*> models;
  models.reserve(optimizers.size());
  for (const Optimizer* optimizer : optimizers) models.push_back(&optimizer->model());
  return models;
}

Device device_of(const std::vector<Optimizer*>& optimizers) {
  TASUKI_CHECK(!optimizers.empty(), "steps of a training need an optimizer");
  const Device device = optimizers.front()->arena().values().device();
  for (const Optimizer* optimizer : optimizers)
    TASUKI_CHECK(optimizer->arena().values().device() == device,
                 "optimizers of one step work on one device, not on {} and {}", device.text(),
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
