// What --summary prints: the model's layers and functions (nn/model_summary.hpp).
#pragma once

#include "nn/module.hpp"
#include "program/data/training_data.hpp"
#include "program/start/rank_setup.hpp"
#include "training/updater.hpp"

namespace tasuki::program {

// Computes the loss of one example of zeros as in an evaluation, and prints the table of that pass;
// of a divided model, a table for each rank of it. Collective.
void print_model_summary(const RankSetup& setup, const Module& model, const LossFunction& loss,
                         const SplitData& data);

}  // namespace tasuki::program
