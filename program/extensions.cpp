#include "program/extensions.hpp"

#include "program/checkpoints.hpp"
#include "program/initial_state.hpp"
#include "program/learning_rate.hpp"
#include "program/resume.hpp"
#include "training/extensions/allreduce_persistent.hpp"
#include "training/extensions/check_replicas.hpp"
#include "training/extensions/device_monitor.hpp"
#include "training/extensions/fail_on_non_number.hpp"
#include "training/extensions/log_report.hpp"
#include "training/extensions/print_progress.hpp"
#include "training/extensions/print_report.hpp"
#include "training/extensions/print_steps.hpp"
#include "training/extensions/progress_bar.hpp"
#include "training/extensions/report_step_times.hpp"
#include "training/extensions/time_limit.hpp"
#include "training/extensions/trace_file.hpp"

namespace tasuki::program {
namespace {

void extend_with_log(Trainer& trainer, const TrainingProgram& program, const TrainingData& data) {
  const TrainingSettings& settings = program.settings;
  auto due = settings.log_every ? every(static_cast<double>(*settings.log_every), Unit::iteration)
                                : every(1, Unit::epoch);
  trainer.extend(std::make_unique<LogReport>(std::move(due)));
  if (settings.quiet) return;
  trainer.extend(std::make_unique<PrintProgress>(settings.progress_every, data.train.header.count));
  std::vector<std::string> columns = program.columns;
  if (settings.log_every)
    columns.insert(columns.begin() + std::min<std::ptrdiff_t>(1, std::ssize(columns)), "iteration");
  trainer.extend(std::make_unique<PrintReport>(std::move(columns)));
  if (settings.print_every) trainer.extend(std::make_unique<PrintSteps>(*settings.print_every));
  trainer.extend(std::make_unique<ProgressBar>());
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

Shift* extend(Trainer& trainer, const TrainingProgram& program, const RankSetup& setup,
              const TrainingData& data) {
  const TrainingSettings& settings = program.settings;
  trainer.set_resume_flag("--resume");
  trainer.extend(allreduce_persistent());
  trainer.extend(report_step_times());
  if (settings.monitor) trainer.extend(monitor_devices(setup.devices, *settings.monitor));
  if (settings.trace)
    trainer.extend(trace_file({.file = *settings.trace, .steps = settings.trace_steps}));
  trainer.extend(keep_data(data, settings.skip_damaged));
  Shift* const schedule = extend_with_schedule(trainer, settings);
  trainer.extend(std::make_unique<FailOnNonNumber>(
      FailOnNonNumber::Settings{.max_loss = settings.max_loss}, every(1, Unit::epoch)));
  if (program.extend) program.extend(trainer);
  if (settings.check_replicas) trainer.extend(check_replicas(*settings.check_replicas));
  if (settings.time_limit) trainer.extend(time_limit(*settings.time_limit));
  extend_with_log(trainer, program, data);
  extend_with_checkpoints(trainer, settings, *setup.grid);
  trainer.extend(keep_flags(setup.resumption, trainer.updater().optimizers()));
  return schedule;
}

}  // namespace tasuki::program
