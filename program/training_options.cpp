#include "tasuki/program/training_options.hpp"

#include "tasuki/program/precision.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "tasuki/communicator/registry.hpp"
#include "tasuki/dataset/shard_plan.hpp"
#include "tasuki/program/device.hpp"
#include "tasuki/program/learning_rate.hpp"
#include "tasuki/program/resume.hpp"
#include "tasuki/training/extensions/fail_on_non_number.hpp"
#include "tasuki/training/extensions/log_report.hpp"
#include "tasuki/training/extensions/print_report.hpp"
#include "tasuki/training/extensions/print_steps.hpp"
#include "tasuki/training/extensions/progress_bar.hpp"

namespace tasuki::program {
namespace {

constexpr std::int64_t billion = 1'000'000'000;
constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
constexpr IntegerRange batch_sizes = {1, 1 << 24};

std::vector<std::string> communicator_names() {
  std::vector<std::string> names(communicator_kinds().size());
  std::ranges::transform(communicator_kinds(), names.begin(), &CommunicatorKind::name);
  names.emplace_back("help");
  return names;
}

// Of the batch's two flags, the one that is given last counts: each takes the other back.
Option batchsize_option(TrainingSettings& settings) {
  Option option;
  option.value_name = "N";
  option.help = "examples per rank and step";
  option.set = [&settings](const std::string& text) {
    settings.batchsize = parse_integer(text, batch_sizes);
    settings.global_batch.reset();
  };
  option.get = [&settings] { return std::to_string(settings.batchsize); };
  return option;
}

Option global_batch_option(TrainingSettings& settings) {
  Option option;
  option.value_name = "B";
  option.help =
      "examples of a step on all ranks together, shared as evenly as may be, instead of "
      "--batchsize "
      "(of the two the one that is given last counts)";
  option.set = [&settings](const std::string& text) {
    if (text == "none") {
      settings.global_batch.reset();
      return;
    }
    try {
      settings.global_batch = parse_integer(text, batch_sizes);
    } catch (const std::invalid_argument& expected) {
      throw std::invalid_argument(fmt::format("{}, or 'none'", expected.what()));
    }
  };
  option.get = [&settings] {
    return settings.global_batch ? std::to_string(*settings.global_batch) : "none";
  };
  return option;
}

}  // namespace

void add_training_options(Options& options, TrainingSettings& settings) {
  options.group("Run");
  options.add("batchsize,b", batchsize_option(settings));
  options.add("global-batch", global_batch_option(settings));
  options.add("epoch,e", settings.epoch, {1, billion}, "N", "passes over the training data");
  options.add("max-iterations", settings.max_iterations, "none", {1, unlimited}, "N",
              "end after this many steps, if that comes before the last epoch's end");
  options.add("seed", settings.seed, {0, unlimited}, "N",
              "of initial weights and the order of examples");
  options.add("resume,r", settings.resume, "none", "FILE",
              "go on from this snapshot, or from the newest in this folder, with its flags of the "
              "optimizer where others are not given");
  options.add("init", settings.init, "none", "FILE",
              "start from the weights of this model file or snapshot");
  options.add("dry-run", settings.dry_run,
              "set everything up and say what would be done, without training");
  options.add("find-batchsize", settings.find_batchsize,
              "say which --batchsize is the largest that all ranks have memory for, without "
              "training");

  options.add("max-loss", settings.max_loss, {0.0, 1e300}, "FACTOR",
              "end with an error when the loss has passed FACTOR times the first one (or FACTOR, "
              "where that was below 1); 0: never");

  add_stall_options(options, settings.stalls);

  options.group("Data");
  options.add("data", settings.data, "auto", "DIR",
              "folder with the data set's files; by itself the first there is of "
              "$TASUKI_DATA/<data set>, ~/.cache/tasuki/<data set> and Debian's package");
  options.add("examples", settings.examples, "all", {1, unlimited}, "N",
              "train on the first N examples only");
  options.add("test-examples", settings.test_examples, "all", {1, unlimited}, "N",
              "evaluate on the first N examples only");
  options.add(
      "shards", settings.shards, "none", {1, 1 << 20}, "V",
      "deal the data to V virtual shards, a multiple of the number of ranks: global batches "
      "are then the same for any number of ranks");
  options.add(
      "augment", settings.augment,
      "train on random crops and mirror images of other brightness and contrast; all images, "
      "also those to evaluate on, are standardised");
  options.add(
      "loader-threads", settings.loader_threads, "auto", {0, 256}, "N",
      "threads per rank that read batches ahead; by itself one where examples are augmented "
      "or decoded, else none");

  options.group("Optimizer");
  options.add("optimizer", settings.optimizer, optimizer_names(), "NAME", "update rule");
  add_learning_rate_options(options, settings);
  options.add("momentum", settings.momentum, "auto", {0.0, 1.0}, "X",
              "of momentum_sgd and nesterov; by itself Chainer's default");
  options.add(
      "weight-decay", settings.weight_decay, {0.0, 1e3}, "X",
      "adds X times each weight to its gradient, of all parameters (adamw: takes it off the "
      "weight itself)");

  options.group("Communication and devices");
  options.add("communicator", settings.communicator, communicator_names(), "NAME",
              "how gradients are averaged; `help` lists the names");
  options.add("wire-dtype", settings.wire_dtype, {"fp32", "fp16", "bf16"}, "NAME",
              "type in which pure_nccl sends gradients: 16 bits halve what travels");
  add_gpu_options(options, settings.gpu, settings.share_gpu);
  options.add("threads", settings.threads, "auto", {1, 4096}, "N",
              "threads per rank; default: OMP_NUM_THREADS, else the node's cores shared among its "
              "ranks, as far as the binding allows");

  options.add(
      "conv", settings.conv, {"auto", "direct", "winograd", "interleaved"}, "NAME",
      "convolutions on CPUs; `auto` times those that may pay, once per shape, and keeps the "
      "fastest");

  options.add("dtype", settings.dtype, precision_names(), "NAME",
              "what is computed in, on CPUs fp32 or bf16 (products alone); weights stay fp32, fp16 "
              "scales losses by itself");
  options.add("graph", settings.graph, {"auto", "on", "off"}, "WHEN",
              "record a training step on a GPU once and repeat it; `auto`: where that is possible");
  options.add(
      "autotune", settings.autotune,
      "on GPUs, time all of cuDNN's algorithms once per shape instead of asking it for one");
  options.add("deterministic", settings.deterministic,
              "on GPUs, take only algorithms that give the same bits in every run; not with "
              "--autotune");

  options.group("Output");
  options.add("out,o", settings.out, "DIR",
              "folder for log and snapshots; DIR-2, DIR-3, ... where another run has left its own "
              "or is at work. With --resume the default is the snapshot's folder, in which the run "
              "goes on");
  options.add("overwrite", settings.overwrite,
              "write to --out even if another run has left results there; its log and snapshots "
              "are removed");
  options.add("log-every", settings.log_every, "epoch", {1, unlimited}, "N",
              "iterations between lines of the log; by itself one each epoch");
  options.add("print-every", settings.print_every, "never", {1, unlimited}, "N",
              "iterations between lines with loss and speed, besides the table");
  options.add("progress-every", settings.progress_every, {0, 1e6}, "SECONDS",
              "where output is no terminal: seconds after which a line with position, loss and "
              "speed (while evaluating: the batch) follows the last line; 0: never");
  options.add("snapshot-every", settings.snapshot_every, "end", {1, billion}, "N",
              "epochs between snapshots; by itself one at the end");
  options.add("monitor", settings.monitor, "never", {0.01, 1e6}, "SECONDS",
              "seconds between lines on each rank's device (load, memory, ...) in "
              "monitor.<rank>.csv");
  options.add("quiet", settings.quiet, "print warnings and errors only");
  options.add("verbose", settings.verbose, "also say what was chosen, and why");
}

void apply_recipe(const Recipe& recipe, Options& options, const TrainingSettings& settings) {
  const auto of_optimizer = [](const std::string& flag) {
    return flag == "lr" || flag.starts_with("lr-") || flag == "momentum" || flag == "weight-decay";
  };
  // The optimizer first, as others depend on it.
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

std::int64_t global_batch(const TrainingSettings& settings, int ranks) {
  const std::int64_t together = settings.global_batch.value_or(settings.batchsize * ranks);
  if (together < ranks)
    fail_everywhere(ErrorKind::usage,
                    "--global-batch: expected at least {}, an example for each rank, found {}",
                    ranks, together);
  return together;
}

std::int64_t largest_batch(const TrainingSettings& settings, int ranks) {
  return part_of(global_batch(settings, ranks), ranks, 0).size();
}

std::unique_ptr<Optimizer> create_optimizer(const TrainingSettings& settings, int ranks) {
  auto optimizer = tasuki::create_optimizer(settings.optimizer);
  set_learning_rate(*optimizer, settings, global_batch(settings, ranks));
  const std::vector<std::string> known = optimizer->hyperparameters();
  const auto has = [&known](const char* name) { return std::ranges::count(known, name) > 0; };
  if (settings.momentum) {
    if (!has("momentum"))
      fail_everywhere(ErrorKind::usage, "--momentum: {} has none; leave --momentum out",
                      settings.optimizer);
    optimizer->set("momentum", *settings.momentum);
  }
  if (settings.weight_decay > 0) {
    // Adam has this hyper-parameter, too, but --weight-decay is Chainer's hook there.
    if (settings.optimizer == "adamw")
      optimizer->set("weight_decay_rate", settings.weight_decay);
    else
      optimizer->add_hook(weight_decay(settings.weight_decay));
  }
  return optimizer;
}

void extend_and_resume(Trainer& trainer, const TrainingSettings& settings) {
  trainer.set_resume_flag("--resume");
  Shift* const schedule = extend_with_schedule(trainer, settings);
  trainer.extend(std::make_unique<FailOnNonNumber>(
      FailOnNonNumber::Settings{.max_loss = settings.max_loss}, every(1, Unit::epoch)));
  auto due = settings.log_every ? every(static_cast<double>(*settings.log_every), Unit::iteration)
                                : every(1, Unit::epoch);
  trainer.extend(std::make_unique<LogReport>(std::move(due)));
  if (!settings.quiet) {
    std::vector<std::string> columns = {"epoch",
                                        "main/loss",
                                        "validation/main/loss",
                                        "main/accuracy",
                                        "validation/main/accuracy",
                                        "elapsed_time"};
    if (settings.log_every) columns.insert(columns.begin() + 1, "iteration");
    trainer.extend(std::make_unique<PrintReport>(std::move(columns)));
    if (settings.print_every) trainer.extend(std::make_unique<PrintSteps>(*settings.print_every));
    trainer.extend(std::make_unique<ProgressBar>());
  }
  Snapshot::Settings saving;
  saving.at_end = true;
  Attachment attachment;
  attachment.trigger = settings.snapshot_every
                           ? every(static_cast<double>(*settings.snapshot_every), Unit::epoch)
                           : at({}, Unit::epoch);
  trainer.extend(std::make_unique<Snapshot>(saving), std::move(attachment));
  trainer.extend(keep_flags(settings));
  if (settings.resume) go_on(trainer, settings, schedule);
}

}  // namespace tasuki::program
