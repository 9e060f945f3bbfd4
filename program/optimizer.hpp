// The optimizer that a program's flags ask for.
#pragma once

#include <memory>
#include <string>

#include "optimizer/optimizer.hpp"
#include "program/flags/options.hpp"
#include "program/training_settings.hpp"

namespace tasuki::program {

// The table that `--optimizer help` prints: names, hyper-parameters and their defaults.
std::string optimizer_help();
// The optimizer by --optimizer and the flags below.
std::unique_ptr<Optimizer> create_optimizer(const TrainingSettings& settings, int ranks);
// Refuses --no-decay-1d where neither the flags nor the optimizer, as it was made, decay weights. A
// default, or a resumed run's flag, may stand.
void check_decay(const Options& options, const TrainingSettings& settings,
                 const Optimizer& optimizer);
// Applies --lr, --lr-scaling, --momentum, --weight-decay, --clip-norm and --lars to an optimizer. A
// flag for a hyper-parameter that it does not have is a usage error.
void configure_optimizer(Optimizer& optimizer, const TrainingSettings& settings, int ranks);
// What --exchange, --bucket-mb, --error-feedback and --compress say.
ExchangeSettings exchange_settings(const TrainingSettings& settings);
// The hooks among them, for messages: ", clip_norm 1, weight_decay 0.0005"; empty without hooks.
std::string describe_hooks(const Optimizer& optimizer, const TrainingSettings& settings);

}  // namespace tasuki::program
