// Settings that all training programs share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/program/options.hpp"
#include "tasuki/program/stalls.hpp"
#include "tasuki/training/extensions/snapshot.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki::program {

// Flags by name, with their texts.
using FlagTexts = std::vector<std::pair<std::string, std::string>>;

// ChainerMN's names and defaults where it has them.
struct TrainingSettings {
  std::int64_t batchsize = 100;              // per rank
  std::optional<std::int64_t> global_batch;  // of all ranks, instead of batchsize
  std::int64_t epoch = 20;
  std::optional<std::int64_t> max_iterations;
  std::int64_t seed = 0;
  double max_loss = 1e6;  // times the first; 0: any
  std::optional<std::string> resume;
  std::optional<std::string> init;
  FlagTexts optimizer_flags;           // that snapshots keep (resume.hpp)
  std::vector<std::string> overruled;  // flags of the schedule that differ from the snapshot's

  std::optional<std::string> data;
  std::optional<std::int64_t> examples, test_examples;
  std::optional<std::int64_t> shards;
  bool augment = false;
  std::optional<std::int64_t> loader_threads;

  std::string optimizer = "adam";
  std::optional<double> lr;
  std::string lr_scaling = "none";       // none, linear, sqrt
  std::int64_t reference_batch = 100;    // that lr is for
  std::string lr_schedule = "constant";  // constant, steps, halving
  double warmup = 0;                     // epochs
  std::optional<double> momentum;
  double weight_decay = 0;

  std::string communicator = "auto";
  std::string wire_dtype = "fp32";
  std::string gpu = "none";  // none, auto, or a number
  bool share_gpu = false;    // several ranks may have the same one
  std::optional<std::int64_t> threads;
  std::string conv = "auto";   // auto, direct, winograd, interleaved
  std::string dtype = "fp32";  // precision.hpp
  std::string graph = "auto";  // auto, on, off
  bool autotune = false;       // cuda_settings.hpp
  bool deterministic = false;

  std::string out = "result";
  bool overwrite = false;                      // what another run has left there
  std::optional<std::int64_t> log_every;       // iterations
  std::optional<std::int64_t> print_every;     // iterations
  double progress_every = 30;                  // seconds
  std::optional<std::int64_t> snapshot_every;  // epochs
  std::optional<double> monitor;               // seconds
  bool dry_run = false;
  bool find_batchsize = false;
  StallSettings stalls;
  bool quiet = false;
  bool verbose = false;
};

void add_training_options(Options& options, TrainingSettings& settings);

// Defaults that belong together, as flags and texts: {{"epoch", "300"}, {"lr", "0.05"}}. Call it in
// choose_defaults(). With another optimizer than the recipe's, its other settings of the optimizer
// are left out; a --global-batch that was given stays.
using Recipe = std::vector<std::pair<std::string, std::string>>;
void apply_recipe(const Recipe& recipe, Options& options, const TrainingSettings& settings);

// Examples of a step on all ranks together, and the most that one rank has of them. A global batch
// that leaves ranks without an example is a usage error.
std::int64_t global_batch(const TrainingSettings& settings, int ranks);
std::int64_t largest_batch(const TrainingSettings& settings, int ranks);

// The optimizer that --optimizer, --lr, --lr-scaling, --momentum and --weight-decay ask for.
std::unique_ptr<Optimizer> create_optimizer(const TrainingSettings& settings, int ranks);

// Attaches what every training program has: the learning rate's schedule, a check for losses that
// are not finite or too large, the log, the table, a progress bar on a terminal and snapshots; then
// goes on from
// --resume.
void extend_and_resume(Trainer& trainer, const TrainingSettings& settings);

}  // namespace tasuki::program
