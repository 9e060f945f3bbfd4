// The data of a run: found, checked, and scattered to the ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tasuki/dataset/catalog.hpp"
#include "tasuki/dataset/scatter.hpp"
#include "tasuki/program/training_program.hpp"

namespace tasuki::program {

// The examples to train on, or those to evaluate on.
struct SplitData {
  DatasetHeader header;
  // Until scatter(), after which no rank holds more than its share:
  OpenSource open;                     // for rank 0
  std::unique_ptr<DataSource> source;  // on rank 0, after check_files()
  // With TrainingProgram::every_rank_has_data, in place of the source.
  std::shared_ptr<const Dataset> dataset;
  // From then on:
  std::optional<Share> share;
};

struct TrainingData {
  std::string place;  // the folder, for messages
  SplitData train;
  std::optional<SplitData> test;
  // After scatter(): the header of the training examples, with ragged fields of any length as long
  // as the longest example of all ranks. Data that every rank has are read for it only with
  // --find-batchsize.
  DatasetHeader longest;

  // Opens the files and checks for unreadable ones. Collective.
  void check_files(Communicator& communicator);
  // Gives each rank its shares, with augmentation if the settings ask for it. Collective.
  void scatter(const TrainingSettings& settings, Communicator& communicator);
};

// The same before scatter(); rank 0 reads all examples if it has to. Collective.
DatasetHeader read_longest(const SplitData& split, Communicator& communicator);

// Finds the data of a program and reads everything that is known before their examples. Data
// without examples are an error. Collective.
TrainingData find_data(const TrainingProgram& program, Communicator& communicator);

}  // namespace tasuki::program
