// The extensions that flags attach to a trainer.
#pragma once

#include <memory>

#include "program/data/training_data.hpp"
#include "program/start/rank_setup.hpp"
#include "program/training_program.hpp"

namespace tasuki::program {

// The end of the run: --epoch, --max-iterations, --early-stopping.
std::unique_ptr<Trigger> stop_trigger(const TrainingSettings& settings);

// Attaches the extensions of every training program besides the evaluator (statistics averaged over
// ranks, step times, the learning rate's schedule, a check for losses that are not finite or too
// large, log, table, progress, checkpoints, snapshots), and those of TrainingProgram::extend.
// Returns the learning rate's schedule; null for a constant rate.
Shift* extend_trainer(Trainer& trainer, const TrainingProgram& program, const RankSetup& setup,
                      const TrainingData& data);

}  // namespace tasuki::program
