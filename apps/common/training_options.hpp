// Settings that all training programs share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/options.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/training/extensions/snapshot.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki::apps {

// ChainerMN's names and defaults where it has them.
struct TrainingSettings {
  std::int64_t batchsize = 100;  // per rank
  std::int64_t epoch = 20;
  std::optional<std::int64_t> max_iterations;
  std::int64_t seed = 0;
  std::optional<std::string> resume;

  std::optional<std::string> data;
  std::optional<std::int64_t> examples, test_examples;
  std::optional<std::int64_t> shards;

  std::string optimizer = "adam";
  std::optional<double> lr;

  std::string communicator = "auto";
  std::string gpu = "none";  // none, auto, or a number
  std::optional<std::int64_t> threads;

  std::string out = "result";
  std::optional<std::int64_t> log_every;       // iterations
  std::optional<std::int64_t> snapshot_every;  // epochs
  bool dry_run = false;
  bool quiet = false;
};

void add_training_options(Options& options, TrainingSettings& settings);

// The optimizer that --optimizer and --lr ask for.
std::unique_ptr<Optimizer> create_optimizer(const TrainingSettings& settings);

// Attaches what every training program has: a check for numbers that are not finite, the log, the
// table, a progress bar on a terminal and snapshots; then goes on from --resume.
void extend_and_resume(Trainer& trainer, const TrainingSettings& settings);

}  // namespace tasuki::apps
