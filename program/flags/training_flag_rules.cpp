// Which flags may be combined, and the exchange settings that flags ask for.
#include <algorithm>

#include "core/error.hpp"
#include "optimizer/exchange_settings.hpp"
#include "program/flags/flag_groups.hpp"
#include "program/flags/training_flags.hpp"

namespace tasuki::program {

void check_resume_flags(const TrainingSettings& settings) {
  using From = ResumeSettings::From;
  if (settings.init && settings.resume.from == From::path)
    fail_everywhere(ErrorKind::usage,
                    "--init and --resume: a run starts from weights or continues from a snapshot; "
                    "leave one out");
  if (settings.init_map && !settings.init)
    fail_everywhere(ErrorKind::usage,
                    "--init-map has no effect without --init FILE; add it or leave the map out");
  if (!settings.init_skip.empty() && !settings.init)
    fail_everywhere(ErrorKind::usage,
                    "--init-skip has no effect without --init FILE; add it or leave the patterns "
                    "out");
  if (settings.overwrite && settings.resume.from != From::nothing)
    fail_everywhere(ErrorKind::usage,
                    "--overwrite and --resume: a run either removes old results or adds to them; "
                    "leave one out");
}

namespace {

bool saves_by_the_clock(const TrainingSettings& settings) {
  const auto& period = settings.checkpoint_every;
  return period && (period->unit == PeriodUnit::minute || period->unit == PeriodUnit::second);
}

// What a run cannot have whose bits do not depend on its ranks.
void check_reproducible_flags(const Options& options, const TrainingSettings& settings) {
  const auto refuse = [](const char* flag, const char* reason) {
    fail_everywhere(ErrorKind::usage, "--reproducible and {}: {}; leave one out", flag, reason);
  };
  if (settings.sync_bn)
    refuse("--sync-bn", "each layer would need the statistics of all shards at once");
  if (settings.model_ranks != 1)
    refuse("a model on several ranks", "its parts depend on the number of ranks");
  if (settings.gpu.is_wanted) refuse("--gpu", "shards are added in a fixed order on CPUs only");
  if (settings.workers)
    refuse("--devices", "a batch's parts would depend on the number of devices");
  if (settings.wire_dtype != DType::float32)
    refuse("--wire-dtype", "what is rounded depends on the number of ranks");
  if (settings.power_sgd_rank > 0)
    refuse("--compress", "what is left out depends on the number of ranks");
  if (settings.allreduce)
    refuse("--allreduce", "shards are added in one order, whatever the algorithm");
  if (settings.exchange == ExchangeMode::double_buffered && saves_by_the_clock(settings) &&
      options.is_given("checkpoint-every"))
    refuse("--checkpoint-every by the clock with --exchange double-buffered",
           "a save uses gradients early, so the times of saves affect the bits");
  if (settings.communicator == "dummy")
    refuse("--communicator dummy", "it does not exchange gradients");
  if (settings.autotune) refuse("--autotune", "what is timed may differ from run to run");
  if (settings.find_batchsize)
    refuse("--find-batchsize", "memory depends on the size of a shard's part of the batch");
}

// What needs all weights in one place, or at times that ranks do not share.
void check_divided_weights(const TrainingSettings& settings) {
  if (sharding_of(settings) != Sharding::weights) {
    if (!settings.shard_unit.empty())
      fail_everywhere(ErrorKind::usage,
                      "--shard-unit has no effect without --shard weights; add it");
    return;
  }
  const auto refuse = [](const char* flag, const char* reason) {
    fail_everywhere(ErrorKind::usage,
                    "--shard weights and {}: {}; leave one out, or choose --shard gradients", flag,
                    reason);
  };
  if (settings.gpu.is_wanted) refuse("--gpu", "weights are divided on CPUs only");
  if (settings.workers) refuse("--devices", "the devices of a process would read weights at once");
  if (settings.sync_every)
    refuse("--sync-every", "between synchronisations each machine has weights of its own");
  if (settings.ema) refuse("--ema", "an average would be as large as all weights");
  if (settings.snapshot_every)
    refuse("--snapshot-every",
           "one rank would need all weights for the file (--checkpoint-every saves in pieces)");
  if (settings.histograms > 0) refuse("--histograms", "no rank has all weights");
  if (settings.model_ranks != 1)
    refuse("a model on several ranks", "its parts are divided already");
  if (settings.recompute == Recompute::automatic)
    refuse("--recompute auto",
           "the step that measures memory gathers no weights (--recompute all)");
  if (settings.find_batchsize)
    refuse("--find-batchsize", "the steps that measure memory gather no weights");
}

}  // namespace

void apply_reproducible(TrainingSettings& settings) {
  if (!settings.reproducible) return;
  if (!settings.shards) settings.shards = default_shards;
  if (!settings.global_batch) settings.global_batch = settings.batchsize;
  if (settings.conv == ConvAlgorithm::fastest) settings.conv = ConvAlgorithm::by_shape;
  if (settings.exchange == ExchangeMode::double_buffered && saves_by_the_clock(settings))
    settings.checkpoint_every = {.count = 1, .unit = PeriodUnit::epoch};
}

void check_training_flags(const Options& options, const TrainingSettings& settings) {
  if (settings.reproducible) check_reproducible_flags(options, settings);
  if (settings.dry_run && settings.find_batchsize)
    fail_everywhere(ErrorKind::usage,
                    "--dry-run and --find-batchsize exclude each other; leave one out");
  if (settings.summary && (settings.dry_run || settings.find_batchsize))
    fail_everywhere(ErrorKind::usage, "--summary and --{} exclude each other; leave one out",
                    settings.dry_run ? "dry-run" : "find-batchsize");
  if (settings.shard_optimizer && settings.shard == Sharding::none && options.is_given("shard"))
    fail_everywhere(ErrorKind::usage,
                    "--shard none and --shard-optimizer exclude each other; leave one out");
  if (!settings.early_stopping && options.is_changed("patience"))
    fail_everywhere(ErrorKind::usage,
                    "--patience has no effect without --early-stopping KEY; add it");
  if (settings.histograms > 0 && !settings.tensorboard)
    fail_everywhere(ErrorKind::usage, "--histograms has no effect without --tensorboard; add it");
  if (settings.sync_bn && settings.workers)
    fail_everywhere(ErrorKind::usage,
                    "--sync-bn and --devices: batch normalisation cannot use the statistics of "
                    "several devices of one process; start one process for each device, or leave "
                    "--sync-bn out");
  if (settings.accumulate > 1 && settings.gpu.is_wanted && settings.graph == GraphMode::on)
    fail_everywhere(ErrorKind::usage,
                    "--accumulate and --graph on: iterations of several batches are not recorded "
                    "as graphs; leave one out");
  if (settings.accumulate > 1 && settings.workers)
    fail_everywhere(ErrorKind::usage,
                    "--accumulate: a process with several devices takes one batch in an iteration; "
                    "leave the flag out");
  if (settings.ema && settings.workers)
    fail_everywhere(ErrorKind::usage,
                    "--ema: one process with several devices keeps no average; start one process "
                    "for each device, or leave the flag out");
  if (settings.recompute == Recompute::automatic && (settings.workers || settings.model_ranks != 1))
    fail_everywhere(ErrorKind::usage,
                    "--recompute auto: a step is measured on one rank with one device; choose all "
                    "or none");
  if (settings.recompute == Recompute::automatic && settings.sync_bn)
    fail_everywhere(
        ErrorKind::usage,
        "--recompute auto and --sync-bn: each rank measures a step alone; choose all or "
        "none");
  if (settings.on_nan == OnNan::skip && settings.workers)
    fail_everywhere(ErrorKind::usage,
                    "--on-nan skip: one process with several devices cannot leave out steps; start "
                    "one process for each device, or leave the flag out");
  const std::string conflict = conflict_in(
      exchange_settings(settings),
      {.is_on_gpu = settings.gpu.is_wanted,
       .wire_dtype = settings.wire_dtype,
       .scales_losses = settings.dtype == ComputeType::fp16,
       .skips_non_finite = settings.on_nan == OnNan::skip,
       .layers_communicate = settings.sync_bn,
       .keeps_sums_only = sharding_of(settings) >= Sharding::gradients && !settings.reproducible,
       .divides_weights = sharding_of(settings) == Sharding::weights});
  if (!conflict.empty()) fail_everywhere(ErrorKind::usage, "{}", conflict);
  check_divided_weights(settings);
  check_local_step_flags(options, settings);
  check_learning_rate_flags(options, settings);
  check_checkpoint_flags(options, settings);
}

void apply_recipe(const Recipe& recipe, Options& options, const TrainingSettings& settings) {
  const auto of_optimizer = [](const std::string& flag) {
    return flag == "lr" || flag.starts_with("lr-") || flag == "momentum" ||
           flag == "weight-decay" || flag == "no-decay-1d" || flag == "clip-norm" || flag == "lars";
  };
  // The optimizer first, because other flags depend on it.
  bool is_recipes = true;
  for (const auto& [flag, text] : recipe) {
    if (flag != "optimizer") continue;
    options.set_default(flag, text);
    is_recipes = settings.optimizer == text;
  }
  for (const auto& [flag, text] : recipe) {
    if (flag == "optimizer" || (flag == "batchsize" && settings.global_batch) ||
        (!is_recipes && of_optimizer(flag)))
      continue;
    options.set_default(flag, text);
  }
}

Sharding sharding_of(const TrainingSettings& settings) {
  return settings.shard_optimizer ? std::max(settings.shard, Sharding::states) : settings.shard;
}

ExchangeSettings exchange_settings(const TrainingSettings& settings) {
  constexpr double mebibyte = 1 << 20;
  return {.mode = settings.exchange,
          .range_bytes =
              settings.bucket_mb ? static_cast<std::int64_t>(*settings.bucket_mb * mebibyte) : 0,
          .error_feedback = settings.error_feedback,
          .power_sgd_rank = settings.power_sgd_rank};
}

}  // namespace tasuki::program
