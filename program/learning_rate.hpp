// The learning rate: its flags, how it follows the batch size, and its schedule.
#pragma once

#include <cstdint>
#include <string>

#include "program/flags/options.hpp"
#include "program/training_settings.hpp"
#include "training/extensions/shift.hpp"

namespace tasuki::program {

// --lr, --lr-scaling, --lr-reference-batch, --lr-schedule, --lr-drops, --lr-drop-factor, --lr-power
// and --warmup.
void add_learning_rate_flags(Options& options, TrainingSettings& settings);
// Refuses flags that belong to another --lr-schedule.
void check_learning_rate_flags(const Options& options, const TrainingSettings& settings);

// Sets the rate for steps of `global_batch` examples: --lr (or the optimizer's default), scaled
// according to LrScaling. Flags for the rate of an optimizer that has none are a usage error.
void set_learning_rate(Optimizer& optimizer, const TrainingSettings& settings,
                       std::int64_t global_batch);

// How the rate was scaled, " = 0.1 x 4 (linear scaling: global batch 400, recipe 100)"; empty if it
// was not.
std::string describe_scaling(const TrainingSettings& settings, double rate,
                             std::int64_t global_batch);

// The schedule for messages, "x 0.1 after 50 % and 80 % of the epochs, rising for 5 epochs"; empty
// for a constant rate.
std::string describe_schedule(const TrainingSettings& settings);

// Whether the schedule depends on the length of the run, --epoch.
bool follows_length(const TrainingSettings& settings);

// The rate of each iteration, counted from the first one of the run (as if all of it had this run's
// batches, also after a resume with others):
//   warm-up     rises in equal steps over --warmup epochs, whatever the schedule
//   steps       x --lr-drop-factor after each epoch in --lr-drops
//   halving     x 0.5 after every 25 epochs (ChainerMN's CIFAR example)
//   cosine, polynomial: falls from the end of the warm-up to 0 at the end of the last epoch
//               (RateSchedule); --max-iterations does not shorten that
RateSchedule rate_schedule(const TrainingSettings& settings, std::int64_t steps_per_epoch);

// Attaches the schedule, and "lr" to the log: the rate of the update just done (observe_lr).
// Returns the schedule; null for a constant rate.
Shift* extend_with_schedule(Trainer& trainer, const TrainingSettings& settings);

}  // namespace tasuki::program
