// What every training program does first: flags, communicator, devices, threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/algorithms/link_probe.hpp"
#include "communicator/communicator.hpp"
#include "program/flags/options.hpp"
#include "program/model_grid.hpp"
#include "program/resume.hpp"
#include "program/start/processors.hpp"
#include "program/training_settings.hpp"
#include "training/output_folder.hpp"

namespace tasuki::program {

// The environment variable with which tasuki-run marks its runs.
inline constexpr const char* supervisor_variable = "TASUKI_SUPERVISOR";

// What a rank runs with.
struct RankSetup {
  std::unique_ptr<Communicator> communicator;  // of all ranks
  std::unique_ptr<ModelGrid> grid;             // which of them have a model together
  Links links;                                 // as measured, where --allreduce auto needs them
  std::vector<Device> devices;                 // of this rank; several only with settings.workers
  std::string device_text;                     // with the GPU's name, for the banner
  Processors processors;
  ThreadPlan threads;
  Resumption resumption;

  // The device of the model.
  Device device() const { return devices.front(); }
};

// Throws on all ranks unless they run the same build of the same program (core/build_id.hpp) with
// the same arguments: another build may round differently, or differ in any way. Settings follow
// from the arguments (rank 0 reads the config file), so equal arguments mean equal settings.
// Collective.
void check_same_program(Communicator& communicator, const std::vector<std::string>& arguments);

// Checks that all ranks run the same program with the same arguments, parses them (rank 0 reads the
// config file and --resume's snapshot for all), makes the communicator and sets the number of
// threads. Nothing if the flags asked only for a text: rank 0 has printed --help or the like.
// `check_flags` is called with the flags that come from that snapshot and before other files are
// looked for, also for --print-config.
// Collective.
std::optional<RankSetup> set_up_rank(Options& options, TrainingSettings& settings, int argc,
                                     char** argv, const std::function<void()>& check_flags);

// The devices that the flags ask for: CPU 0, or GPU 0 for --gpu, or those of --devices.
std::vector<Device> devices_in_flags(const TrainingSettings& settings);
// Whether the flags for devices fit each other.
void check_device_flags(const TrainingSettings& settings);

// Reads config files on rank 0 for all: an error is one on all ranks, and other hosts need not have
// the file. Collective; the communicator must outlive the reader.
Options::FileReader read_on_root(Communicator& communicator);
// Prints `text` to standard output at once on rank 0, nothing elsewhere.
void print_on_root(const Communicator& communicator, const std::string& text);
// The same in lines that fit a terminal, for what is read by people only.
void report_on_root(const Communicator& communicator, const std::string& text);

// The folder for the results, before any work is done: --out, or one beside it. Rank 0 takes it
// (output_folder.hpp); all ranks know its path, and an error is one on all ranks. Collective.
std::shared_ptr<OutputFolder> take_output_folder(const RankSetup& setup,
                                                 const TrainingSettings& settings);
// With --overwrite: removes the results of another run in it, also where machines have disks of
// their own. Collective.
void remove_old_results(Communicator& communicator, const TrainingSettings& settings,
                        const OutputFolder& output);
// The folder that would be taken, checked but neither made nor locked. Collective.
std::shared_ptr<OutputFolder> find_output_folder(const RankSetup& setup,
                                                 const TrainingSettings& settings);

}  // namespace tasuki::program
