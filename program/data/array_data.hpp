// Data of training programs in files of arrays: the data sets hdf5 and npy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "communicator/communicator.hpp"
#include "dataset/catalog.hpp"
#include "dataset/dataset.hpp"
#include "program/data/program_data.hpp"
#include "program/flags/options.hpp"
#include "program/flags/training_settings.hpp"

namespace tasuki::program {

// Whether --dataset names a format of array files, rather than a data set of the catalogue.
bool has_array_files(const ProgramData& program);

// Adds --fields, --test-fields, --test-data, --classes and --stream, for programs that take the
// names hdf5 and npy for --dataset.
void add_array_file_flags(Options& options, ArrayFileSettings& settings);

// Refuses these flags where they contradict each other or --dataset, before files are opened.
void check_array_file_flags(const Options& options, const ProgramData& program,
                            const TrainingSettings& settings);

// Whether the flags name examples to evaluate on.
bool has_test_arrays(const ProgramData& program);

// --classes, or one more than the largest label to train on, which rank 0 looks for. Collective.
std::int64_t classes_of_arrays(const ProgramData& program, const TrainingSettings& settings,
                               Communicator& communicator);

// The examples of a split: "x" of ProgramData::example_shape, if that is set, and labels "t" below
// `classes` (0: any).
std::shared_ptr<const Dataset> open_array_files(const ProgramData& program,
                                                const TrainingSettings& settings, DataSplit split,
                                                std::int64_t classes);

}  // namespace tasuki::program
