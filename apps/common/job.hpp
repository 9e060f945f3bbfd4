// What every training program does first: flags, communicator, device, threads.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/options.hpp"
#include "common/processors.hpp"
#include "common/training_options.hpp"
#include "tasuki/communicator/communicator.hpp"

namespace tasuki::apps {

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

// The folder --out on rank 0, made and checked before any work is done; an error is met by all
// ranks. Collective.
void prepare_output_folder(Communicator& communicator, const std::string& folder);
// The same check without making it. Collective.
void check_output_folder(Communicator& communicator, const std::string& folder);

}  // namespace tasuki::apps
