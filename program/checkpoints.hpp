// Checkpoints of a training program: their flags, and the extensions that save.
#pragma once

#include <memory>
#include <string>

#include "program/flags/options.hpp"
#include "program/model_grid.hpp"
#include "program/training_settings.hpp"
#include "training/trainer.hpp"

namespace tasuki::program {

// --checkpoint-every, --keep, --keep-best, --snapshot-every.
void add_checkpoint_flags(Options& options, TrainingSettings& settings);
// Throws a usage error if they do not fit each other.
void check_checkpoint_flags(const Options& options, const TrainingSettings& settings);

// "20it", "0.5epoch", "10min" or "90s". Throws std::invalid_argument with what was expected.
CheckpointPeriod parse_checkpoint_period(const std::string& text);
std::string to_text(const CheckpointPeriod& period);

// Attaches a Checkpoint unless the flags switch it off, and the Snapshot of --snapshot-every, which
// also saves at the end of a run. Collective.
void extend_with_checkpoints(Trainer& trainer, const TrainingSettings& settings,
                             const ModelGrid& grid);

}  // namespace tasuki::program
