#include "program/flags/training_flags.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/printable.hpp"
#include "core/text_parts.hpp"
#include "program/flags/batch_sizes.hpp"
#include "program/flags/flag_groups.hpp"
#include "saving/name_map.hpp"
#include "training/step_table.hpp"

namespace tasuki::program {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
constexpr NumberRange seconds = {0.0, 1e7};

// Of --batchsize and --global-batch, the last one given counts: each resets the other.
Option batchsize_flag(TrainingSettings& settings) {
  Option option;
  option.value_name = "N";
  option.help = settings.model_ranks == 1
                    ? "examples per rank and step; with --reproducible, of all ranks together"
                    : "examples per model and step, for any number of ranks per model";
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
      "examples per step on all ranks together, divided as evenly as possible; `none`: "
      "--batchsize for each rank. If both flags are given, the last one counts";
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
      "when the job has run for TIME (90s, 30m, 12h, 1:30:00), finish the step, save a "
      "checkpoint and end with exit code 79, as on SIGUSR1. Saving takes additional time, so "
      "leave a few minutes for it";
  bind_or_none(option, seconds, parse_duration, duration_text);
  return option;
}

// Patterns of parameters' paths.
Option patterns_flag(std::vector<std::string>& patterns, const std::string& help) {
  Option option;
  option.value_name = "PATTERN,...";
  option.help = help;
  option.choices = {"none"};
  option.set = [&patterns](const std::string& text) {
    patterns = text == "none" ? std::vector<std::string>() : text_parts(text, ',');
    if (std::ranges::count(patterns, "") > 0)
      throw std::invalid_argument("patterns separated by commas, or 'none'");
  };
  option.get = [&patterns] { return patterns.empty() ? std::string("none") : join(patterns, ","); };
  return option;
}

Option resume_flag(ResumeSettings& resume) {
  using From = ResumeSettings::From;
  Option option;
  option.value_name = "PATH";
  option.help =
      "continue a run: PATH is a checkpoint, a snapshot, or an output folder, whose newest intact "
      "checkpoint or snapshot is used; --epoch and the optimizer's flags default to the saved "
      "values. `auto`: the newest one in --out; if there is none, start a new run there";
  option.choices = {"auto", "none"};
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

Option check_data_flag(std::optional<bool>& check) {
  Option option;
  option.value_name = "";
  option.implicit = "true";
  option.help =
      "before training, read all examples, decode image files, and list unreadable ones, one per "
      "line. By default (`auto`), this is done only with --dry-run";
  option.choices = {"auto", "true", "false"};
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
  options
      .add(
          "recompute", settings.recompute,
          {{"none", Recompute::none}, {"auto", Recompute::automatic}, {"all", Recompute::all}},
          "BLOCKS",
          "which blocks of the model keep only their inputs for the backward pass, and are "
          "computed "
          "again there, which takes less memory and about a third more time; results have the same "
          "bits. auto: measures a step that recomputes all, and keeps the blocks that fit into "
          "this "
          "rank's memory. For models with blocks: residual networks, VGG, cnn10, GoogLeNet, "
          "transformers, seq2seq")
      .in_short("blocks to compute again in the backward pass");
  options.add("accumulate", settings.accumulate, {1, 1 << 20}, "K",
              "add up the gradients of K batches, then exchange and update once. An iteration is "
              "then K batches, or what is left of the epoch. If K is above 1, iterations on GPUs "
              "are not recorded as graphs (--graph)");
  options.add("epoch,e", settings.epoch, {1, billion}, "N", "passes over the training data")
      .common();
  options.add("max-iterations", settings.max_iterations, "none", {1, unlimited}, "N",
              "stop after N iterations, or at the end of --epoch, whichever comes first");
  options.add("time-limit", time_limit_flag(settings.time_limit));
  options.add("early-stopping", settings.early_stopping, "none", "KEY",
              "stop when this value in the log (for example validation/main/loss) has not improved "
              "for --patience epochs (larger is better if KEY contains `accuracy`)");
  options.add("patience", settings.patience, {1, billion}, "N",
              "epochs without improvement after which --early-stopping stops");
  options.add("seed", settings.seed, {0, unlimited}, "N",
              "seed of the initial weights, the order of examples, augmentation and dropout");
  options.add("resume,r", resume_flag(settings.resume))
      .common("continue from a saved state, or `auto`");
  options.add("init", settings.init, "none", "FILE",
              "initial weights: a model file (.npz or .safetensors), snapshot or checkpoint; for a "
              "model on several ranks, a checkpoint or FILE.0, FILE.1, ...");
  options
      .add("init-map", settings.init_map, "auto", "NAME",
           "names of the arrays in --init's file: tasuki (the model's own), torchvision, gpt2, or "
           "a file of patterns (docs/weights.md); auto: the one of the three that fits best")
      .in_short("names of the arrays in --init's file")
      .words_or_file(name_map_words());
  options
      .add("init-skip", patterns_flag(settings.init_skip,
                                      "parameters that keep their initial values whatever --init's "
                                      "file has, such as another number of classes needs: patterns "
                                      "of paths separated by commas (predictor/fc, "
                                      "predictor/conv*). A pattern may also be a layer's path; * "
                                      "stands for any characters but /, ** for any; `none`: load "
                                      "all"))
      .in_short("parameters that --init leaves as they are");
  options
      .add("freeze", patterns_flag(settings.freeze,
                                   "parameters that are not trained, as patterns like those of "
                                   "--init-skip: no gradients are computed for them, exchanged or "
                                   "applied. Running statistics of frozen batch normalisation go "
                                   "on following the batches. A resumed run keeps its frozen "
                                   "parameters. `none`: train all"))
      .in_short("parameters that are not trained");
  options.add(
      "shard-unit",
      patterns_flag(settings.shard_unit,
                    "modules whose weights --shard weights gathers together, as patterns of "
                    "paths like those of --init-skip (predictor/h*). A node has two such units "
                    "in memory beside its own part. `none`: by size, about a twelfth of all "
                    "weights each"));
  options
      .add("ema", settings.ema, "none", {0.0, 0.9999999}, "DECAY",
           "keep an exponential moving average of the weights, which after each iteration becomes "
           "DECAY x average + (1 - DECAY) x weights (the first iteration's weights begin it). Each "
           "evaluation is repeated with it (ema/validation/...); it is saved with the run and, at "
           "the end, as ema.npz in --out, which --model of tasuki-predict and --init read")
      .in_short("decay of a moving average of the weights");
  options.add("dry-run", settings.dry_run, "set everything up and print the plan without training");
  options
      .add("summary", settings.summary,
           "print a table of the model's layers and functions for one example (shapes, parameters, "
           "FLOPs, memory of activations), without training")
      .in_short("print a table of the layers, without training");
  options.add("find-batchsize", settings.find_batchsize,
              "print the largest --batchsize that fits into the memory of all ranks, without "
              "training");
  options.add("max-loss", settings.max_loss, {0.0, 1e300}, "FACTOR",
              "stop with an error when the loss exceeds FACTOR times the first loss (or FACTOR, if "
              "the first was below 1); 0: never");
  options.add("on-nan", settings.on_nan, {{"abort", OnNan::abort}, {"skip", OnNan::skip}}, "WHAT",
              std::string("what to do if a loss is not finite. abort: end the job, and name rank, "
                          "iteration and examples. skip: if a loss or a gradient is not finite, "
                          "warn and skip the iteration's update on all ranks; the tenth skipped "
                          "update in a row ends the job; on GPUs the host waits for each step. ") +
                  (settings.workers ? "`skip` does not work in this program"
                                    : "`skip` does not work with --exchange double-buffered, "
                                      "--compress, --error-feedback or --communicator dummy"));
  options.add(
      "check-replicas", settings.check_replicas, "never", {1, billion}, "N",
      "detect ranks whose weights differ (damaged memory): compare hashes before the first "
      "iteration, every N iterations, before each checkpoint or snapshot, and at the end; stop "
      "with an error "
      "that names the ranks that differ. With --node-weights shared, the ranks of a machine (or "
      "socket) share one copy, so the copies of different machines (or sockets) are compared; if "
      "there is only one copy, nothing is compared. With --node-weights private, all ranks are "
      "compared, and the optimizer's states as well unless --shard is given: a 16th of "
      "the states every N iterations, all of them at the other times");
  add_stall_flags(options, settings.stalls);
}

void add_data_flags(Options& options, TrainingSettings& settings, FlagsLeftOut left_out) {
  options.group("Data", OnScreen::no);
  if (!left_out.data)
    options
        .add("data", settings.data, "auto", "DIR",
             "folder with the data set's files; `auto`: the first existing one of "
             "$TASUKI_DATA/<data set>, ~/.cache/tasuki/<data set> and, for MNIST and "
             "Fashion-MNIST, /usr/share/datasets/fashion-mnist (Debian's package "
             "dataset-fashion-mnist)")
        .common();
  options.add("examples", settings.examples, "all", {1, unlimited}, "N",
              "train on only the first N examples");
  options.add("test-examples", settings.test_examples, "all", {1, unlimited}, "N",
              "evaluate on only the first N examples");
  options.add(
      "shards", settings.shards, "none", {1, 1 << 20}, "V",
      "divide the data into V shards instead of one per rank; V must be a multiple of the number "
      "of "
      "ranks. With --global-batch, every number of ranks that divides V then trains on the same "
      "global batches");
  options
      .add("reproducible", settings.reproducible,
           "the same bits of weights, states and log on any number of ranks that divides V of "
           "--shards (then 24 by default), with any communicator that exchanges gradients and any "
           "number of threads, on "
           "CPUs of one type. Each of the V parts of a batch is computed by itself, in one thread. "
           "--batchsize is then of all ranks together, and --conv auto is by-shape")
      .common("same bits on any number of ranks");
  if (!left_out.augment)
    options.add("augment", settings.augment,
                "train on random crops and horizontal flips with random brightness and contrast; "
                "standardise all images, including those for evaluation");
  options.add("check-data", check_data_flag(settings.check_data));
  if (!left_out.images) {
    options.add("skip-damaged", settings.skip_damaged,
                "before training, decode all image files and leave out unreadable ones; a "
                "resumed run leaves out the same files");
    options.add("exif", settings.exif, {{"on", Exif::apply}, {"off", Exif::ignore}}, "WHEN",
                "on: rotate images as their EXIF orientation says, as viewers do; off: take them "
                "as stored, as Pillow and torchvision do. A resumed run keeps its setting");
  }
  options.add("loader-threads", settings.loader_threads, "auto", {0, 256}, "N",
              fmt::format("threads per rank that read batches ahead; `auto`: {}",
                          left_out.augment ? "1" : "1 if images are augmented or decoded, else 0"));
}

Option log_steps_flag(std::optional<std::string>& file) {
  Option option;
  option.value_name = "FILE";
  option.help =
      "write a row for each step (loss, learning rate, times, ...) to FILE, a table if its name "
      "ends in .csv, JSON objects if it ends in .jsonl. A resumed run goes on in its file. A new "
      "run "
      "replaces a file of another run only with --overwrite";
  bind_or_none(
      option, file,
      [](const std::string& text) {
        if (!step_format_of(text))
          throw std::invalid_argument("a name that ends in .csv or .jsonl");
        return text;
      },
      [](const std::string& text) { return text; });
  return option;
}

void add_output_flags(Options& options, TrainingSettings& settings) {
  options.group("Output", OnScreen::no);
  options
      .add("out,o", settings.out, "DIR",
           "folder for log, checkpoints and snapshots; if it holds another run's results or "
           "another job writes to it, the next free one of DIR-2, DIR-3, ... is used. With "
           "--resume PATH the default is that run's folder")
      .common("folder for log and checkpoints");
  options.add("overwrite", settings.overwrite,
              "write to --out even if it holds another run's results; that run's log, checkpoints "
              "and snapshots are removed");
  options.add("log-every", settings.log_every, "epoch", {1, unlimited}, "N",
              "iterations between lines of the log");
  options.add("print-every", settings.print_every, "never", {1, unlimited}, "N",
              "iterations between additional lines with loss and speed");
  options.add("progress-every", settings.progress_every, {0, 1e6}, "SECONDS",
              "without a progress bar (no terminal, or TERM=dumb), print a line with position, "
              "loss and speed after this long without output; 0: never");
  add_checkpoint_flags(options, settings);
  options.add("monitor", settings.monitor, "never", {0.01, 1e6}, "SECONDS",
              "write the load, memory, ... of each rank's device to monitor.<rank>.csv at this "
              "interval");
  options.add("trace", settings.trace, "none", "FILE",
              "write a timeline of all ranks' steps, waits and exchanges to FILE, for Perfetto "
              "(https://ui.perfetto.dev) or Chrome; with GPUs it shows only the host");
  options.add("trace-steps", settings.trace_steps, {1, 100'000}, "N",
              "iterations in the --trace, from the fourth of this run on");
  options.add("tensorboard", settings.tensorboard,
              "write the log, each step's loss, learning rate and times, and the settings to "
              "OUT/tensorboard, for TensorBoard (docs/tensorboard.md)");
  options.add(
      "histograms", settings.histograms, {0, unlimited}, "N",
      "steps between histograms of each parameter's weights and gradients for --tensorboard; "
      "0: none");
  options.add("log-steps", log_steps_flag(settings.log_steps));
  options
      .add("hash-every", settings.hash_every, "never", {1, unlimited}, "N",
           "every N iterations and after the last one, add a line to OUT/hashes: the loss over all "
           "ranks, and hashes of the loss and of each array of the buffers, gradients, weights and "
           "optimizer's states. `tasuki-diff OUT OUT2` finds where two runs part. It reads all "
           "these arrays once; training computes the same bits")
      .in_short("iterations between hashes of what was computed");
  options.add("quiet", settings.quiet, "print only warnings and errors");
  options.add("verbose", settings.verbose, "also print what was chosen automatically, and why");
}

}  // namespace

std::vector<std::string> name_map_words() {
  std::vector<std::string> words = {"auto", tasuki_names};
  for (const KnownNameMap& known : known_name_maps()) words.push_back(known.name);
  return words;
}

void add_stall_flags(Options& options, StallSettings& settings) {
  options
      .add("stall-warning", settings.warning, seconds, "SECONDS",
           "print which rank keeps the others waiting when no rank has made progress for this "
           "long; 0: never")
      .in_short("name the rank others wait for");
  options
      .add("stall-timeout", settings.timeout, seconds, "SECONDS",
           "end the job when no rank has made progress for this long (six times as long if ranks "
           "wait only for user code); 0: never, and --silence-timeout has no effect")
      .in_short("end a job without progress");
  options
      .add("silence-timeout", settings.silence, seconds, "SECONDS",
           "end the job when a rank has sent no heartbeat for this long, because its process "
           "is suspended or its machine is lost; 0: treat it like a rank without progress")
      .in_short("end a job with a silent rank");
}

void add_training_flags(Options& options, TrainingSettings& settings, FlagsLeftOut left_out) {
  add_run_flags(options, settings);
  add_data_flags(options, settings, left_out);
  add_optimizer_flags(options, settings, !left_out.optimizer);
  options.group("Communication and devices", OnScreen::no);
  add_communication_flags(options, settings);
  add_device_flags(options, settings);
  add_output_flags(options, settings);
}

}  // namespace tasuki::program
