// What saved states keep of the data that a run is on, so that a resumed run finds out that it has
// others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "program/data/training_data.hpp"
#include "program/start/model_grid.hpp"
#include "training/extension.hpp"

namespace tasuki::program {

// Keeps in snapshots which data the run is on: number and shape of the examples, a hash of their
// labels in order, hashes of vocabularies and, with --skip-damaged, which images are left out.
// Resuming with other examples is a warning; for vocabularies there is check_vocabularies().
std::unique_ptr<Extension> keep_data(const TrainingData& data, bool skips_damaged);

// Throws an error of kind config on all ranks if `snapshot` (of a divided model, without its
// suffix) keeps another hash of one of the vocabularies: its weights would stand for other words. A
// file that keeps none is not an error. Collective.
void check_vocabularies(const std::string& snapshot,
                        const std::vector<DataVocabulary>& vocabularies, Communicator& communicator,
                        const ModelGrid& grid);

}  // namespace tasuki::program
