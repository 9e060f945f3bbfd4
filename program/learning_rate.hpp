// The learning rate: its flags, its size for the batch, its course.
#pragma once

#include <cstdint>
#include <string>

#include "tasuki/program/training_options.hpp"
#include "tasuki/training/extensions/shift.hpp"

namespace tasuki::program {

// --lr, --lr-scaling, --lr-reference-batch, --lr-schedule, --warmup.
void add_learning_rate_options(Options& options, TrainingSettings& settings);

// The rate for steps of `global_batch` examples: --lr (or the optimizer's default), times
// global_batch / reference ("linear": Goyal et al., arXiv 1706.02677) or the square root of that
// ("sqrt": Krizhevsky, arXiv 1404.5997). Flags for a rate that the optimizer has not are a usage
// error.
void set_learning_rate(Optimizer& optimizer, const TrainingSettings& settings,
                       std::int64_t global_batch);

// How the rate got its size, " = 0.1 x 4 (linear scaling: global batch 400, recipe 100)"; empty
// when it is not scaled.
std::string describe_scaling(const TrainingSettings& settings, double rate,
                             std::int64_t global_batch);

// The course as people read it, "x 0.1 after 50 % and 80 % of the epochs, rising for 5 epochs";
// empty for a rate that stays as it is.
std::string describe_schedule(const TrainingSettings& settings);

// Attaches what --lr-schedule and --warmup ask for, and "lr" to the log: the rate of the update
// just done (observe_lr).
// Returns the schedule; null when the rate stays as it is.
Shift* extend_with_schedule(Trainer& trainer, const TrainingSettings& settings);

}  // namespace tasuki::program
