// The flags that all training programs have, and what follows from the flags alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optimizer/exchange_settings.hpp"
#include "program/flags/options.hpp"
#include "program/flags/training_settings.hpp"

namespace tasuki::program {

// Of --batchsize and --global-batch.
inline constexpr IntegerRange batch_sizes = {1, 1 << 24};

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

// Refuses flags that contradict --resume. A run that is refused for them need not have the files
// that --resume names, so this comes before they are looked for.
void check_resume_flags(const TrainingSettings& settings);

// Refuses other flags that do not fit each other.
void check_training_flags(const Options& options, const TrainingSettings& settings);

// Defaults that belong together, as flags and texts: {{"epoch", "300"}, {"lr", "0.05"}}.
using Recipe = std::vector<std::pair<std::string, std::string>>;
// For Options::choose_defaults(). With another optimizer than the recipe's, the recipe's other
// flags of the optimizer are left out; a --global-batch that was given stays.
void apply_recipe(const Recipe& recipe, Options& options, const TrainingSettings& settings);

// What --exchange, --bucket-mb, --error-feedback and --compress say.
ExchangeSettings exchange_settings(const TrainingSettings& settings);
// The values of --lr-scaling.
const std::vector<Choice<LrScaling>>& lr_scalings();
// The table that `--optimizer help` prints: names, hyper-parameters and their defaults.
std::string optimizer_help();
// "20it", "0.5epoch", "10min" or "90s". Throws std::invalid_argument with what was expected.
CheckpointPeriod parse_checkpoint_period(const std::string& text);
std::string to_text(const CheckpointPeriod& period);

// Examples of a step on all ranks together, and the largest part of a rank. A global batch that
// leaves ranks without an example is a usage error.
std::int64_t global_batch(const TrainingSettings& settings, int ranks);
std::int64_t largest_batch(const TrainingSettings& settings, int ranks);
// How many examples an update uses on all ranks; the last update of an epoch may use fewer.
std::int64_t examples_of_update(const TrainingSettings& settings, int ranks);

}  // namespace tasuki::program
