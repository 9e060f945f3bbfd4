// What flags attach to a trainer.
#pragma once

#include <memory>

#include "tasuki/program/data/data.hpp"
#include "tasuki/program/start/job.hpp"
#include "tasuki/program/training_program.hpp"

namespace tasuki::program {

// The end of the run: --epoch, --max-iterations, --early-stopping.
std::unique_ptr<Trigger> stop_trigger(const TrainingSettings& settings);

// Attaches what every training program has besides the evaluator (statistics averaged over ranks,
// step times, the learning rate's schedule, a check for losses that are not finite or too large,
// log, table, progress, snapshots), and the program's own extensions. Then resumes the snapshot.
// Collective.
void extend(Trainer& trainer, const TrainingProgram& program, const Job& job,
            const TrainingData& data);

}  // namespace tasuki::program
