// The flags of all training programs, and values that follow from the flags alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optimizer/exchange_settings.hpp"
#include "program/flags/batch_sizes.hpp"
#include "program/flags/options.hpp"
#include "program/flags/training_settings.hpp"

namespace tasuki::program {

// Properties of a program that make some flags superfluous.
struct FlagsLeftOut {
  bool data = false;       // --data
  bool optimizer = false;  // --optimizer
  bool augment = false;    // --augment, which images that are streamed cannot have
  bool images = false;     // --exif and --skip-damaged, of programs that read image files
};
// Adds flags for `settings`, whose values are the defaults; --devices and --split if
// settings.workers is set.
void add_training_flags(Options& options, TrainingSettings& settings, FlagsLeftOut left_out = {});

// --stall-warning, --stall-timeout and --silence-timeout, which all programs have.
void add_stall_flags(Options& options, StallSettings& settings);

// Refuses flags that contradict --resume. Called before the program looks for the files that
// --resume names, so that the error does not depend on these files.
void check_resume_flags(const TrainingSettings& settings);

// Refuses other flags that contradict each other.
void check_training_flags(const Options& options, const TrainingSettings& settings);

// The shards of --reproducible: 1, 2, 3, 4, 6, 8, 12 and 24 ranks have equally many.
inline constexpr std::int64_t default_shards = 24;
// With --reproducible: sets what the flag implies and other flags have not set.
void apply_reproducible(TrainingSettings& settings);

// A set of defaults, as flags and texts: {{"epoch", "300"}, {"lr", "0.05"}}.
using Recipe = std::vector<std::pair<std::string, std::string>>;
// For Options::choose_defaults(). If --optimizer is not the recipe's, the recipe's other flags of
// the optimizer are ignored; a given --global-batch stays.
void apply_recipe(const Recipe& recipe, Options& options, const TrainingSettings& settings);

// The settings that --exchange, --bucket-mb, --error-feedback and --compress ask for.
ExchangeSettings exchange_settings(const TrainingSettings& settings);
// What --shard and --shard-optimizer ask for.
Sharding sharding_of(const TrainingSettings& settings);
// The settings that --sync-every and the flags beside it ask for; nothing without it.
std::optional<LocalStepSettings> local_step_settings(const TrainingSettings& settings);
// The values of --lr-scaling.
const std::vector<Choice<LrScaling>>& lr_scalings();
// The table that `--optimizer help` prints: names, hyper-parameters and their defaults.
std::string optimizer_help();

}  // namespace tasuki::program
