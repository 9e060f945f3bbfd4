// The optimizer that a program's flags ask for.
#pragma once

#include <memory>
#include <string>

#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/program/training_settings.hpp"

namespace tasuki::program {

// The optimizer by --optimizer and the flags below.
std::unique_ptr<Optimizer> create_optimizer(const TrainingSettings& settings, int ranks);
// Applies --lr, --lr-scaling, --momentum, --weight-decay, --clip-norm and --lars to an optimizer. A
// flag for a hyper-parameter that it does not have is a usage error.
void configure_optimizer(Optimizer& optimizer, const TrainingSettings& settings, int ranks);
// The hooks among them, for messages: ", clip_norm 1, weight_decay 0.0005"; empty without hooks.
std::string describe_hooks(const Optimizer& optimizer, const TrainingSettings& settings);

}  // namespace tasuki::program
