// The run of a TrainingProgram once its flags are known.
#pragma once

#include "tasuki/program/start/job.hpp"
#include "tasuki/program/training_program.hpp"

namespace tasuki::program {

// ChainerMN's training program: a multi-node optimizer for the model, the data scattered from rank
// 0, a trainer with a multi-node evaluator and the extensions of the flags; banner, table, summary.
// With --dry-run it prints the plan instead, after the same checks of --out and --resume; with
// --find-batchsize the largest batch. Collective.
void run_training(const TrainingProgram& program, const Job& job);

}  // namespace tasuki::program
