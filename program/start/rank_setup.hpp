// What a training program starts with: flags, communicator, devices, threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/algorithms/link_probe.hpp"
#include "communicator/communicator.hpp"
#include "optimizer/local_steps.hpp"
#include "program/flags/batch_sizes.hpp"
#include "program/flags/options.hpp"
#include "program/flags/training_settings.hpp"
#include "program/start/model_grid.hpp"
#include "program/start/precision.hpp"
#include "program/start/processors.hpp"
#include "program/start/resume.hpp"
#include "training/output_folder.hpp"

namespace tasuki::program {

// The environment variable with which tasuki-run marks its runs.
inline constexpr const char* supervisor_variable = "TASUKI_SUPERVISOR";

// What a rank runs with.
struct RankSetup {
  std::unique_ptr<Communicator> communicator;  // of all ranks
  std::unique_ptr<ModelGrid> grid;             // which of them hold a model together
  // Null without --sync-every, and where all ranks are on one machine.
  std::unique_ptr<LocalSteps> local_steps;
  Links links;                  // as measured, where --allreduce auto needs them
  std::vector<Device> devices;  // of this rank; several only with settings.workers
  Device batch_device;          // of iterators; the CPU with settings.workers
  Precision precision;          // of all devices
  std::string device_text;      // with the GPU's name, for the banner
  Processors processors;
  ThreadPlan threads;
  Resumption resumption;

  // The device of the model.
  Device device() const { return devices.front(); }
  // The ranks that exchange gradients with this one in each step.
  Communicator& exchanging() const { return local_steps ? local_steps->group() : grid->data(); }
  // Examples of an update of exchanging(); with local steps the mean over the machines.
  double examples_of_update(const TrainingSettings& settings) const {
    return static_cast<double>(program::examples_of_update(settings, grid->models())) /
           (local_steps ? local_steps->groups() : 1);
  }
};

// Checks that all ranks run the same program with the same arguments, parses these (rank 0 reads
// the config file and --resume's snapshot for all), makes the communicator and sets the number of
// threads. Returns nothing if the flags asked for a text only, such as --help, which rank 0 has
// then printed. Calls `check_flags` once the snapshot's flags are known, before other files are
// looked for, also for --print-config. Collective.
std::optional<RankSetup> set_up_rank(Options& options, TrainingSettings& settings, int argc,
                                     char** argv, const std::function<void()>& check_flags);

// Applies --stall-warning and the like (job/stall_limits.hpp).
void apply(const StallSettings& settings);

// The devices that the flags ask for: CPU 0, or GPU 0 for --gpu, or those of --devices.
std::vector<Device> devices_in_flags(const TrainingSettings& settings);
// Whether the flags for devices fit each other.
void check_device_flags(const TrainingSettings& settings);

// Reads config files on rank 0 for all ranks, so that other hosts need not have the file; all ranks
// throw its errors. Collective; the communicator must outlive the reader.
Options::FileReader read_on_root(Communicator& communicator);
// Prints `text` to standard output on rank 0 and flushes; other ranks print nothing.
void print_on_root(const Communicator& communicator, const std::string& text);
// print_on_root(), wrapped to the width of a terminal; for texts that only people read.
void report_on_root(const Communicator& communicator, const std::string& text);

// Takes the folder for results, --out or one beside it, before any work is done. Rank 0 locks it
// (output_folder.hpp); all ranks know its path and throw its errors. Collective.
std::shared_ptr<OutputFolder> take_output_folder(const RankSetup& setup,
                                                 const TrainingSettings& settings);
// With --overwrite: removes another run's results from it, also where each machine has its own
// disk. Collective.
void remove_old_results(Communicator& communicator, const TrainingSettings& settings,
                        const OutputFolder& output);
// The folder that would be taken, checked but neither made nor locked. Collective.
std::shared_ptr<OutputFolder> find_output_folder(const RankSetup& setup,
                                                 const TrainingSettings& settings);

}  // namespace tasuki::program
