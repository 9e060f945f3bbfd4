// The initial state of a run besides its flags: given weights, and the data that a snapshot belongs
// to.
#pragma once

#include <memory>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/dataset/scatter.hpp"
#include "tasuki/nn/module.hpp"
#include "tasuki/program/model_grid.hpp"
#include "tasuki/program/training_settings.hpp"
#include "tasuki/training/extension.hpp"

namespace tasuki::program {

// Loads the weights of a model file or of a snapshot on rank 0, from where an optimizer's
// setup sends them to all ranks; of a divided model, FILE.0, FILE.1, ... on the ranks of the first
// model. The file may have a classifier's predictor alone (without "predictor/"). A file that does
// not fit is an error on all ranks; weights in it that the model lacks are a warning. Collective.
void load_initial_weights(const std::string& path, Module& model, Communicator& communicator,
                          const ModelGrid& grid);

// Keeps in snapshots which data the run is on: number and shape of the examples, and a hash of
// their labels in order. Resuming with other data is a warning.
std::unique_ptr<Extension> keep_data(const DatasetHeader& header, const Share& share);

}  // namespace tasuki::program
