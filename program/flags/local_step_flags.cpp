// --sync-every and the other flags of local steps (optimizer/local_steps.hpp).
#include "core/error.hpp"
#include "program/flags/flag_groups.hpp"
#include "program/flags/training_flags.hpp"

namespace tasuki::program {

void add_local_step_flags(Options& options, TrainingSettings& settings) {
  LocalStepSettings& local = settings.local_steps;
  options
      .add("sync-every", settings.sync_every, "none", {1, billion}, "H",
           "on CPUs: ranks of a machine exchange gradients in each step, as --communicator says, "
           "but machines only bring their weights and running statistics together every H steps, "
           "and before evaluations and saves; optimizer states stay with each machine. For slow "
           "links between machines; results differ from those of exchanges in each step. A request "
           "to stop takes effect at the next synchronisation. `none`: machines exchange gradients "
           "in each step")
      .in_short("steps between exchanges of machines");
  options.add(
      "sync-warmup", local.warmup, {0, billion}, "N",
      "with --sync-every: machines synchronise after each of the first N steps, by the mean");
  options
      .add("outer-optimizer", local.outer,
           {{"none", OuterOptimizer::mean}, {"nesterov", OuterOptimizer::nesterov}}, "NAME",
           "with --sync-every: none: weights become the mean of the machines' weights (local SGD); "
           "nesterov: the mean difference to the weights of the last synchronisation is the "
           "gradient of a step of SGD with Nesterov's momentum from there (DiLoCo)")
      .in_short("what machines do with each other's weights");
  options.add("outer-lr", local.lr, {1e-9, 1e6}, "RATE",
              "learning rate of --outer-optimizer nesterov");
  options.add("outer-momentum", local.momentum, {0.0, 0.999999}, "M",
              "momentum of --outer-optimizer nesterov");
  options.add("sync-overlap", local.overlap,
              "with --sync-every: differences travel while the next H steps are computed, and the "
              "other machines' are added after them");
}

namespace {

// Whether this run asks for it, not only the one that it continues or a file of defaults.
bool asks_for(const Options& options, const char* flag) {
  return options.is_given(flag) && options.is_changed(flag);
}

}  // namespace

void check_local_step_flags(const Options& options, const TrainingSettings& settings) {
  if (!settings.sync_every) {
    for (const char* const flag :
         {"sync-warmup", "outer-optimizer", "outer-lr", "outer-momentum", "sync-overlap"})
      if (asks_for(options, flag))
        fail_everywhere(ErrorKind::usage, "--{} has no effect without --sync-every H; add it",
                        flag);
    return;
  }
  for (const char* const flag : {"outer-lr", "outer-momentum"})
    if (settings.local_steps.outer == OuterOptimizer::mean && asks_for(options, flag))
      fail_everywhere(ErrorKind::usage,
                      "--{} has no effect without --outer-optimizer nesterov; add it", flag);
  const auto refuse = [](const char* flag, const char* reason) {
    fail_everywhere(ErrorKind::usage, "--sync-every and {}: {}; leave one out", flag, reason);
  };
  if (settings.gpu.is_wanted) refuse("--gpu", "machines train by themselves on CPUs only");
  if (settings.workers) refuse("--devices", "one process trains alone");
  if (settings.model_ranks != 1)
    refuse("a model on several ranks", "a machine needs the whole model");
  if (settings.reproducible)
    refuse("--reproducible", "results depend on which ranks are on one machine");
  if (settings.sync_bn)
    refuse("--sync-bn",
           "batch normalisation would exchange messages between machines in each step");
  if (settings.exchange == ExchangeMode::double_buffered)
    refuse("--exchange double-buffered", "gradients must be used in their own step");
  if (settings.power_sgd_rank > 0) refuse("--compress", "gradients do not leave the machine");
  if (settings.error_feedback)
    refuse("--error-feedback",
           "gradients do not leave the machine; what does has its rounding errors kept anyway");
  if (settings.communicator == "dummy")
    refuse("--communicator dummy", "it does not exchange gradients");
  if (settings.on_nan == OnNan::skip)
    refuse("--on-nan skip", "all machines would have to agree on each step");
  if (settings.check_replicas)
    refuse("--check-replicas", "machines have different weights between synchronisations");
  if (settings.ema) refuse("--ema", "machines have different weights between synchronisations");
}

std::optional<LocalStepSettings> local_step_settings(const TrainingSettings& settings) {
  if (!settings.sync_every) return std::nullopt;
  LocalStepSettings local = settings.local_steps;
  local.every = *settings.sync_every;
  return local;
}

}  // namespace tasuki::program
