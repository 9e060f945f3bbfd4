// What every training program does first: flags, communicator, device, threads.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/program/options.hpp"
#include "tasuki/program/processors.hpp"
#include "tasuki/program/training_options.hpp"
#include "tasuki/training/output_folder.hpp"

namespace tasuki::program {

struct Job {
  std::unique_ptr<Communicator> communicator;
  Device device;
  std::string device_text;  // with the GPU's name, for the banner
  Processors processors;
  ThreadPlan threads;
};

// Throws on all ranks unless they run the same version with the same arguments. Settings are a
// function of the arguments (rank 0 reads the config file), so that equal arguments are equal
// settings. Collective.
void check_same_program(Communicator& communicator, const std::vector<std::string>& arguments);

// Collective. Checks that all ranks are the same program with the same arguments, parses them (rank
// 0 reads config file and --resume's snapshot for all), makes the communicator and sets the threads
// to compute with. Nothing when that was all: --help and the like have been printed by rank 0.
std::optional<Job> start_job(Options& options, TrainingSettings& settings, int argc, char** argv);

// Reads files, those of --config, on rank 0 for all: an error is met by all ranks, and other hosts
// need not have the file. Collective; the communicator must outlive the reader.
Options::FileReader read_on_root(Communicator& communicator);

// The folder for the results by --out, --overwrite and --resume, before any work is done. Rank 0
// takes it (output_folder.hpp); its path is known on all ranks, and an error is met by all.
// Collective.
std::shared_ptr<OutputFolder> take_output_folder(Communicator& communicator,
                                                 const TrainingSettings& settings);
// With --overwrite: removes what another run has left there. Collective.
void remove_old_results(Communicator& communicator, const TrainingSettings& settings,
                        const OutputFolder& output);
// The folder that it would be, checked but neither made nor locked. Collective.
std::shared_ptr<OutputFolder> find_output_folder(Communicator& communicator,
                                                 const TrainingSettings& settings);

}  // namespace tasuki::program
