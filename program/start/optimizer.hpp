// The optimizer that a program's flags ask for, its learning rate, and how that changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "optimizer/optimizer.hpp"
#include "program/flags/options.hpp"
#include "program/flags/training_settings.hpp"
#include "training/extensions/shift.hpp"

namespace tasuki::program {

// The optimizer that `create` makes (default: the one of --optimizer), with check_decay() and
// configure_optimizer(). `examples`: of an update.
std::unique_ptr<Optimizer> create_optimizer(
    const Options& options, const TrainingSettings& settings, double examples,
    const std::function<std::unique_ptr<Optimizer>()>& create = {});
// Refuses --no-decay-1d if neither the flags nor the optimizer decay weights. Accepts it as a
// default or a resumed run's flag.
void check_decay(const Options& options, const TrainingSettings& settings,
                 const Optimizer& optimizer);
// Applies --lr, --lr-scaling, --momentum, --weight-decay, --clip-norm and --lars to an optimizer. A
// flag for a hyper-parameter that it does not have is a usage error.
void configure_optimizer(Optimizer& optimizer, const TrainingSettings& settings, double examples);
// The hooks of the flags, for messages: ", clip_norm 1, weight_decay 0.0005"; empty without hooks.
std::string describe_hooks(const Optimizer& optimizer, const TrainingSettings& settings);

// Sets the rate for updates of `examples` examples: --lr or the optimizer's default, scaled as
// LrScaling says. Flags about the rate are a usage error if the optimizer has none.
void set_learning_rate(Optimizer& optimizer, const TrainingSettings& settings, double examples);

// How the rate was scaled, " = 0.1 x 4 (linear scaling: global batch 400, recipe 100)"; empty if it
// was not.
std::string describe_scaling(const TrainingSettings& settings, double rate, double examples);

// The schedule for messages, "x 0.1 after 50 % and 80 % of the epochs, rising for 5 epochs"; empty
// for a constant rate.
std::string describe_schedule(const TrainingSettings& settings);

// Whether the schedule depends on the length of the run, --epoch.
bool follows_length(const TrainingSettings& settings);

// The rate of each iteration, counted from the run's first one (after a resume with other batches,
// as if the whole run had used this run's batches):
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
