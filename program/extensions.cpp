#include "program/extensions.hpp"

#include <algorithm>

#include "core/text_parts.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "program/data/kept_data.hpp"
#include "program/report/about.hpp"
#include "program/start/optimizer.hpp"
#include "program/start/resume.hpp"
#include "training/extensions/allreduce_persistent.hpp"
#include "training/extensions/check_replicas.hpp"
#include "training/extensions/checkpoint.hpp"
#include "training/extensions/device_monitor.hpp"
#include "training/extensions/fail_on_non_number.hpp"
#include "training/extensions/hash_log.hpp"
#include "training/extensions/log_report.hpp"
#include "training/extensions/misclassified.hpp"
#include "training/extensions/observe.hpp"
#include "training/extensions/print_progress.hpp"
#include "training/extensions/print_report.hpp"
#include "training/extensions/print_steps.hpp"
#include "training/extensions/progress_bar.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/extensions/step_log.hpp"
#include "training/extensions/tensorboard.hpp"
#include "training/extensions/time_limit.hpp"
#include "training/extensions/trace_file.hpp"
#include "training/extensions/weight_average.hpp"

namespace tasuki::program {
namespace {

// On CPUs reading the time costs nothing. All ranks have one answer.
bool times_steps(const TrainingSettings& settings, const RankSetup& setup) {
  if (std::ranges::all_of(setup.devices, &Device::is_cpu)) return true;
  const bool has_several = setup.communicator->size() > 1 || setup.devices.size() > 1;
  return settings.step_times == StepTiming::automatic ? has_several
                                                      : settings.step_times == StepTiming::on;
}

void extend_with_log(Trainer& trainer, const TrainingProgram& program, const TrainingData& data) {
  const TrainingSettings& settings = program.settings;
  auto due = settings.log_every ? every(static_cast<double>(*settings.log_every), Unit::iteration)
                                : every(1, Unit::epoch);
  trainer.extend(std::make_unique<LogReport>(std::move(due)));
  if (settings.quiet) return;
  trainer.extend(std::make_unique<PrintProgress>(settings.progress_every, data.train.header.count));
  std::vector<std::string> columns;
  for (const std::string& column : program.columns) {
    columns.push_back(column);
    if (settings.ema && column.starts_with("validation/")) columns.push_back("ema/" + column);
  }
  if (settings.log_every)
    columns.insert(columns.begin() + std::min<std::ptrdiff_t>(1, std::ssize(columns)), "iteration");
  trainer.extend(std::make_unique<PrintReport>(std::move(columns)));
  if (settings.print_every) trainer.extend(std::make_unique<PrintSteps>(*settings.print_every));
  trainer.extend(std::make_unique<ProgressBar>());
}

// A flag's text as a number or a switch, if it is one.
EventFile::Setting setting_of(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto number = number_in<double>(text)) return *number;
  return text;
}

// Call it after the share of the test data was kept.
void extend_with_tensorboard(Trainer& trainer, const TrainingProgram& program,
                             const RankSetup& setup, const TrainingData& data) {
  const TrainingSettings& settings = program.settings;
  TensorBoard::Settings shown{.histograms = settings.histograms};
  for (const auto& [name, text] : program.flags.values()) shown.settings[name] = setting_of(text);
  trainer.extend(std::make_unique<TensorBoard>(std::move(shown)));
  const bool has_labels = data.test && data.test->header.has("x") && data.test->header.has("t") &&
                          data.test->header.field("t").classes > 0;
  // Each rank would compute examples alone.
  const bool divides_weights = trainer.updater().optimizer().divides_weights();
  if (!has_labels || !data.test->share || setup.grid->is_divided() || divides_weights) return;
  constexpr std::int64_t batch = 64;
  trainer.extend(show_misclassified(create_serial_iterator(*data.test->share, batch),
                                    names_of_classes(program, data)));
}

void extend_with_steps(Trainer& trainer, const TrainingProgram& program, const RankSetup& setup,
                       const TrainingData& data) {
  const TrainingSettings& settings = program.settings;
  if (settings.tensorboard) extend_with_tensorboard(trainer, program, setup, data);
  if (settings.log_steps)
    trainer.extend(std::make_unique<StepLog>(
        *settings.log_steps,
        settings.overwrite || settings.resume.from != ResumeSettings::From::nothing));
}

std::unique_ptr<Trigger> trigger_of(const CheckpointPeriod& period) {
  switch (period.unit) {
    case PeriodUnit::iteration:
      return every(period.count, Unit::iteration);
    case PeriodUnit::epoch:
      return every(period.count, Unit::epoch);
    case PeriodUnit::minute:
      return every_seconds(60 * period.count);
    case PeriodUnit::second:
      break;
  }
  return every_seconds(period.count);
}

// A Checkpoint unless the flags switch it off, and the Snapshot of --snapshot-every, which also
// saves at the end of a run. Where nodes divide weights, a Checkpoint saves at the end. Collective.
void extend_with_checkpoints(Trainer& trainer, const TrainingSettings& settings,
                             const ModelGrid& grid) {
  const auto& replicas = grid.replicas();
  const bool divides_weights = trainer.updater().optimizer().divides_weights();
  // A checkpoint is saved in pieces, a snapshot is one file.
  if (divides_weights && !settings.checkpoint_every) {
    trainer.extend(std::make_unique<Checkpoint>(
        Checkpoint::Settings{.n_retains = static_cast<int>(settings.keep)}, at({}, Unit::epoch)));
    return;
  }
  if (const auto& period = settings.checkpoint_every) {
    Checkpoint::Settings saving{.n_retains = static_cast<int>(settings.keep),
                                .keep_best = settings.keep_best.value_or(""),
                                .replicas = replicas};
    if (period->unit == PeriodUnit::iteration)
      saving.max_lost_iterations = static_cast<std::int64_t>(period->count);
    trainer.extend(std::make_unique<Checkpoint>(std::move(saving), trigger_of(*period)));
  }
  if (divides_weights) return;
  auto snapshot = std::make_unique<Snapshot>(Snapshot::Settings{.at_end = true});
  if (replicas) snapshot = create_multi_node_snapshot(std::move(snapshot), replicas);
  trainer.extend(std::move(snapshot),
                 {.trigger = settings.snapshot_every
                                 ? every(static_cast<double>(*settings.snapshot_every), Unit::epoch)
                                 : at({}, Unit::epoch)});
}

}  // namespace

std::unique_ptr<Trigger> stop_trigger(const TrainingSettings& settings) {
  const auto epochs = static_cast<double>(settings.epoch);
  if (!settings.early_stopping) return stop_after(epochs, settings.max_iterations);
  return early_stopping({.monitor = *settings.early_stopping,
                         .patience = static_cast<int>(settings.patience),
                         .max_epochs = epochs,
                         .max_iterations = settings.max_iterations});
}

Shift* extend_trainer(Trainer& trainer, const TrainingProgram& program, const RankSetup& setup,
                      const TrainingData& data) {
  const TrainingSettings& settings = program.settings;
  trainer.set_resume_flag("--resume");
  // Running statistics are already equal on all ranks, and a mean would round them.
  if (!settings.reproducible && !setup.local_steps) trainer.extend(allreduce_persistent());
  if (times_steps(settings, setup)) trainer.extend(report_step_times());
  if (settings.monitor) trainer.extend(monitor_devices(setup.devices, *settings.monitor));
  if (settings.trace)
    trainer.extend(trace_file({.file = *settings.trace, .steps = settings.trace_steps}));
  trainer.extend(keep_data(data, settings.skip_damaged));
  Shift* const schedule = extend_with_schedule(trainer, settings);
  trainer.extend(std::make_unique<FailOnNonNumber>(
      FailOnNonNumber::Settings{.max_loss = settings.max_loss}, every(1, Unit::epoch)));
  if (settings.ema)
    trainer.extend(std::make_unique<WeightAverage>(
        trainer.updater().optimizers(),
        WeightAverage::Settings{.decay = *settings.ema, .replicas = setup.grid->replicas()}));
  if (program.extend) program.extend(trainer);
  if (settings.check_replicas) trainer.extend(check_replicas(*settings.check_replicas));
  if (settings.hash_every) log_hashes(trainer, {.every = *settings.hash_every});
  if (settings.time_limit) trainer.extend(time_limit(*settings.time_limit));
  extend_with_log(trainer, program, data);
  extend_with_steps(trainer, program, setup, data);
  extend_with_checkpoints(trainer, settings, *setup.grid);
  trainer.extend(keep_flags(setup.resumption, trainer.updater().optimizers()));
  return schedule;
}

}  // namespace tasuki::program
