#include "program/training_flags.hpp"

#include <fmt/core.h>

#include <limits>

#include "core/printable.hpp"
#include "program/checkpoints.hpp"
#include "program/device_flags.hpp"
#include "program/learning_rate.hpp"
#include "program/optimizer.hpp"
#include "program/start/stalls.hpp"

namespace tasuki::program {
namespace {

constexpr std::int64_t billion = 1'000'000'000;
constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

// The last one given of --batchsize and --global-batch counts: each resets the other.
Option batchsize_flag(TrainingSettings& settings) {
  Option option;
  option.value_name = "N";
  option.help = settings.model_ranks == 1
                    ? "examples per rank and step"
                    : "examples per model and step, whatever the number of ranks that hold it";
  option.set = [&settings](const std::string& text) {
    settings.batchsize = parse_integer(text, batch_sizes);
    settings.global_batch.reset();
  };
  option.get = [&settings] { return std::to_string(settings.batchsize); };
  return option;
}

Option global_batch_flag(TrainingSettings& settings) {
  Option option;
  option.value_name = "B";
  option.help =
      "examples per step on all ranks together, shared as evenly as possible; unless `none`, used "
      "instead of --batchsize. Giving --batchsize sets it to `none`; the last one given counts";
  bind_or_none(
      option, settings.global_batch,
      [](const std::string& text) { return parse_integer(text, batch_sizes); },
      [](std::int64_t size) { return std::to_string(size); });
  return option;
}

Option time_limit_flag(std::optional<double>& seconds) {
  Option option;
  option.value_name = "TIME";
  option.help =
      "stop when the job has run for TIME since its start (90s, 30m, 12h, 1:30:00), as SIGUSR1 "
      "does: after the step, with a checkpoint and exit code 79. Saving comes after it, so choose "
      "it a few minutes shorter than the time that you have";
  bind_or_none(option, seconds, parse_duration, duration_text);
  return option;
}

Option resume_flag(ResumeSettings& resume) {
  using From = ResumeSettings::From;
  Option option;
  option.value_name = "PATH";
  option.help =
      "continue from this checkpoint or snapshot, or from the newest intact one in this output "
      "folder; --epoch and the optimizer's flags default to those saved there. `auto`: continue "
      "from the newest one in --out, or start there if it has none";
  option.set = [&resume](const std::string& text) {
    resume.from = text == "none" ? From::nothing : text == "auto" ? From::automatic : From::path;
    resume.path = resume.from == From::path ? text : "";
  };
  option.get = [&resume]() -> std::string {
    if (resume.from == From::path) return resume.path.string();
    return resume.from == From::automatic ? "auto" : "none";
  };
  return option;
}

Option optimizer_flag(TrainingSettings& settings) {
  return name_flag(settings.optimizer, optimizer_names(),
                   fmt::format("update rule: {}; `help` lists their hyper-parameters",
                               join(optimizer_names(), ", ")),
                   optimizer_help);
}

Option check_data_flag(std::optional<bool>& check) {
  Option option;
  option.value_name = "";
  option.implicit = "true";
  option.help =
      "read all examples before training, decode image files, and list each that cannot be read on "
      "a line; `auto`: with --dry-run";
  option.set = [&check](const std::string& text) {
    if (text == "auto")
      check.reset();
    else
      check = parse_switch(text);
  };
  option.get = [&check] { return !check ? "auto" : *check ? "true" : "false"; };
  return option;
}

void add_run_flags(Options& options, TrainingSettings& settings) {
  options.group("Run", OnScreen::no);
  options.add("batchsize,b", batchsize_flag(settings))
      .common(settings.model_ranks == 1 ? "" : "examples per model and step");
  options.add("global-batch", global_batch_flag(settings));
  options.add("accumulate", settings.accumulate, {1, 1 << 20}, "K",
              "add up the gradients of K batches, exchange them once and update once. An iteration "
              "is then K batches, or those that are left in the epoch, and is not recorded on GPUs "
              "(--graph)");
  options.add("epoch,e", settings.epoch, {1, billion}, "N", "passes over the training data")
      .common();
  options.add("max-iterations", settings.max_iterations, "none", {1, unlimited}, "N",
              "stop after N steps, if --epoch does not end the run earlier");
  options.add("time-limit", time_limit_flag(settings.time_limit));
  options.add("early-stopping", settings.early_stopping, "none", "KEY",
              "stop when this value in the log (for example validation/main/loss) has not improved "
              "for --patience epochs (larger is better if KEY contains `accuracy`)");
  options.add("patience", settings.patience, {1, billion}, "N",
              "epochs without improvement after which --early-stopping stops");
  options.add("seed", settings.seed, {0, unlimited}, "N",
              "seed of the initial weights and of the order of examples");
  options.add("resume,r", resume_flag(settings.resume)).common("continue from PATH, or `auto`");
  options.add("init", settings.init, "none", "FILE",
              "start from the weights in this model file, snapshot or checkpoint; of a model on "
              "several ranks: FILE.0, FILE.1, ..., or a checkpoint");
  options.add("dry-run", settings.dry_run, "set everything up and print the plan without training");
  options.add("find-batchsize", settings.find_batchsize,
              "print the largest --batchsize that all ranks have memory for, without training");
  options.add("max-loss", settings.max_loss, {0.0, 1e300}, "FACTOR",
              "stop with an error when the loss exceeds FACTOR times the first loss (or FACTOR, if "
              "the first was below 1); 0: never");
  options.add(
      "on-nan", settings.on_nan, {{"abort", OnNan::abort}, {"skip", OnNan::skip}}, "WHAT",
      "what follows a loss that is not a finite number. abort: end the job and name rank, "
      "iteration and examples. skip: leave out the update of an iteration, on all ranks, if the "
      "loss of any rank or a gradient is not finite, and warn; the tenth in a row ends the job; on "
      "GPUs the host then waits for each step. Not with --exchange double-buffered, --compress, "
      "--error-feedback, --communicator dummy and several --devices");
  options.add(
      "check-replicas", settings.check_replicas, "never", {1, billion}, "N",
      "every N iterations, before each checkpoint or snapshot and at the end, compare a hash "
      "of the weights (and of optimizer states that every rank has: every N iterations a "
      "16th of them) over the ranks, and stop with an error that names those that deviate, "
      "as damaged memory makes them. Ranks that share one copy (--node-weights shared) "
      "cannot deviate from each other, so that machines are compared; --node-weights "
      "private compares all ranks");
  add_stall_flags(options, settings.stalls);
}

void add_data_flags(Options& options, TrainingSettings& settings, FlagsLeftOut left_out) {
  options.group("Data", OnScreen::no);
  if (!left_out.data)
    options
        .add("data", settings.data, "auto", "DIR",
             "folder with the data set's files; `auto`: the first that exists of "
             "$TASUKI_DATA/<data set>, ~/.cache/tasuki/<data set> and the folder of Debian's "
             "package")
        .common();
  options.add("examples", settings.examples, "all", {1, unlimited}, "N",
              "train on the first N examples only");
  options.add("test-examples", settings.test_examples, "all", {1, unlimited}, "N",
              "evaluate on the first N examples only");
  options.add(
      "shards", settings.shards, "none", {1, 1 << 20}, "V",
      "deal the data to V virtual shards, a multiple of the number of ranks: global batches "
      "are then the same for every number of ranks that divides V");
  if (!left_out.augment)
    options.add("augment", settings.augment,
                "train on random crops and mirror images with random brightness and contrast; "
                "standardise all images, those for evaluation included");
  options.add("check-data", check_data_flag(settings.check_data));
  if (!left_out.images) {
    options.add("skip-damaged", settings.skip_damaged,
                "decode all image files before training and leave out those that cannot be read; a "
                "resumed run leaves out the same");
    options.add("exif", settings.exif, {{"on", Exif::apply}, {"off", Exif::ignore}}, "WHEN",
                "on or off: turn images as their EXIF orientation says, as viewers show them; off: "
                "take them as they are stored, as Pillow and torchvision do. A resumed run keeps "
                "its own");
  }
  options.add("loader-threads", settings.loader_threads, "auto", {0, 256}, "N",
              fmt::format("threads per rank that read batches ahead; `auto`: {}",
                          left_out.augment ? "1" : "1 if images are augmented or decoded, else 0"));
}

void add_optimizer_flags(Options& options, TrainingSettings& settings, bool has_name) {
  options.group("Optimizer", OnScreen::no);
  if (has_name) options.add("optimizer", optimizer_flag(settings)).common("update rule, or `help`");
  add_learning_rate_flags(options, settings);
  options.add("momentum", settings.momentum, "auto", {0.0, 1.0}, "X",
              "momentum of momentum_sgd and nesterov; `auto`: Chainer's default");
  options.add("weight-decay", settings.weight_decay, {0.0, 1e3}, "X",
              "add X times each weight to its gradient, for all parameters (adamw, lamb: decay the "
              "weights themselves)");
  options.add("no-decay-1d", settings.no_decay_1d,
              "do not apply --weight-decay to parameters with one axis (biases, and the scales of "
              "normalisation layers)");
  options.add(
      "clip-norm", settings.clip_norm, "none", {1e-30, 1e30}, "X",
      "if the gradient's L2 norm over all parameters exceeds X, scale the gradient down to norm X "
      "(before --weight-decay and --lars)");
  options.add(
      "lars", settings.lars,
      "layer-wise adaptive rates, as Chainer's GradientLARS: each parameter's gradient g becomes "
      "(g + D w) |w| / (|g| + D |w|) if |w| > 0.01, else g + D w; D is --weight-decay");
  options.add(
      "shard-optimizer", settings.shard_optimizer,
      "each rank keeps the optimizer's states of its part of the weights, updates that part "
      "and sends it to the others. States take less memory; training is the same. On GPUs "
      "not with lamb");
}

void add_output_flags(Options& options, TrainingSettings& settings) {
  options.group("Output", OnScreen::no);
  options
      .add("out,o", settings.out, "DIR",
           "folder for log, checkpoints and snapshots; if it has another run's results or another "
           "job is writing to it, the next free one of DIR-2, DIR-3, ... is used. With --resume "
           "PATH the default is the folder of that run")
      .common("folder for log and checkpoints");
  options.add("overwrite", settings.overwrite,
              "write to --out even if it has another run's results; its log, checkpoints and "
              "snapshots are removed");
  options.add("log-every", settings.log_every, "epoch", {1, unlimited}, "N",
              "iterations between lines of the log");
  options.add("print-every", settings.print_every, "never", {1, unlimited}, "N",
              "iterations between lines with loss and speed, besides the table");
  options.add("progress-every", settings.progress_every, {0, 1e6}, "SECONDS",
              "without a progress bar (no terminal, or TERM=dumb): print a line with position, "
              "loss and speed when nothing else was printed for this long; 0: never");
  add_checkpoint_flags(options, settings);
  options.add("monitor", settings.monitor, "never", {0.01, 1e6}, "SECONDS",
              "seconds between lines about each rank's device (load, memory, ...), which are "
              "written to monitor.<rank>.csv");
  options.add("trace", settings.trace, "none", "FILE",
              "write a timeline of all ranks' steps, waits and exchanges to FILE, which Perfetto "
              "(https://ui.perfetto.dev) and Chrome open; on GPUs it shows what the host does");
  options.add("trace-steps", settings.trace_steps, {1, 100'000}, "N",
              "iterations in the --trace, from the fourth of this run on");
  options.add("quiet", settings.quiet, "print only warnings and errors");
  options.add("verbose", settings.verbose, "also print what was chosen automatically, and why");
}

}  // namespace

void add_training_flags(Options& options, TrainingSettings& settings, FlagsLeftOut left_out) {
  add_run_flags(options, settings);
  add_data_flags(options, settings, left_out);
  add_optimizer_flags(options, settings, !left_out.optimizer);
  add_device_flags(options, settings);
  add_output_flags(options, settings);
}

}  // namespace tasuki::program
