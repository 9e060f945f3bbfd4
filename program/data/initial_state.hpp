// The initial state of a run besides its flags: given weights, and the data that a snapshot belongs
// to.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/module.hpp"
#include "program/data/data.hpp"
#include "program/flags/training_settings.hpp"
#include "program/start/model_grid.hpp"
#include "training/extension.hpp"

namespace tasuki::program {

// Loads the weights of a model file, a snapshot or a checkpoint on rank 0, from where an
// optimizer's setup sends them to all ranks; of a divided model, FILE.0, FILE.1, ... or the
// checkpoint's parts on the ranks of the first model. The file may have a classifier's predictor
// alone (without "predictor/"; not where the model is divided and a part has no loss). A file that
// does not fit is an error on all ranks; weights in it that the model lacks are a warning.
// Collective.
void load_initial_weights(const std::string& path, Module& model, Communicator& communicator,
                          const ModelGrid& grid);

// Keeps in snapshots which data the run is on: number and shape of the examples, a hash of their
// labels in order, hashes of vocabularies and, with --skip-damaged, which images are left out.
// Resuming with other examples is a warning; for vocabularies there is check_vocabularies().
std::unique_ptr<Extension> keep_data(const TrainingData& data, bool skips_damaged);

// Throws an error of kind config on all ranks if `snapshot` (of a divided model, without its
// suffix) keeps another hash of one of the vocabularies: its weights would stand for other words. A
// file that keeps none is no error. Collective.
void check_vocabularies(const std::string& snapshot,
                        const std::vector<DataVocabulary>& vocabularies, Communicator& communicator,
                        const ModelGrid& grid);

}  // namespace tasuki::program
