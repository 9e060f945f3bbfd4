// The flags that all training programs have, and what follows from them alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/program/flags/options.hpp"
#include "tasuki/program/training_settings.hpp"

namespace tasuki::program {

// What a program has that makes some flags superfluous.
struct FlagsLeftOut {
  bool data = false;       // --data
  bool optimizer = false;  // --optimizer
};
// Flags for `settings`, whose values are the defaults. --devices and --split are among them where
// settings.workers is there.
void add_training_flags(Options& options, TrainingSettings& settings, FlagsLeftOut left_out = {});

// Refuses flags that do not fit each other.
void check_training_flags(const Options& options, const TrainingSettings& settings);

// Defaults that belong together, as flags and texts: {{"epoch", "300"}, {"lr", "0.05"}}.
using Recipe = std::vector<std::pair<std::string, std::string>>;
// Called in Options::choose_defaults(). With another optimizer than the recipe's, the recipe's
// other flags of the optimizer are left out; a --global-batch that was given stays.
void apply_recipe(const Recipe& recipe, Options& options, const TrainingSettings& settings);

// Examples of a step on all ranks together, and the most that one rank has of them. A global batch
// that leaves ranks without an example is a usage error.
std::int64_t global_batch(const TrainingSettings& settings, int ranks);
std::int64_t largest_batch(const TrainingSettings& settings, int ranks);

// The optimizer by --optimizer and the flags below.
std::unique_ptr<Optimizer> create_optimizer(const TrainingSettings& settings, int ranks);
// What --lr, --lr-scaling, --momentum, --weight-decay, --clip-norm and --lars do to an optimizer.
// One that has no such hyper-parameter is a usage error.
void configure_optimizer(Optimizer& optimizer, const TrainingSettings& settings, int ranks);
// The hooks among them, for people: ", clip_norm 1, weight_decay 0.0005"; empty without hooks.
std::string describe_hooks(const Optimizer& optimizer, const TrainingSettings& settings);

}  // namespace tasuki::program
