// What --dry-run prints: the plan of a run.
#pragma once

#include "program/data/training_data.hpp"
#include "program/flags/training_settings.hpp"
#include "program/start/rank_setup.hpp"
#include "training/updater.hpp"

namespace tasuki::program {

// For --dry-run: prints parameters and their shapes, steps, memory. Runs one batch of zeros forward
// and backward through `loss`, to measure the activations (and to find a model that does not fit
// the data); nothing is updated. Memory is the largest rank's. The sizes of model, data, and the
// copy from which checkpoints are written are computed; the rest is measured. Collective; rank 0
// prints.
void print_dry_run(const RankSetup& setup, const TrainingSettings& settings,
                   const NamedOptimizers& optimizers, const LossFunction& loss,
                   const TrainingData& data);

}  // namespace tasuki::program
