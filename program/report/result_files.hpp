// Files beside the log: finished.json says that everything after the last iteration was made;
// step_times.json says where each rank's time went, so that runs can be compared.
#pragma once

#include <cstdint>
#include <filesystem>

#include "communicator/communicator.hpp"
#include "training/output_folder.hpp"
#include "training/step_times.hpp"
#include "training/trainer.hpp"

namespace tasuki::program {

// In --out: {"iteration": 40, "files": ["snapshot_iter_40", ...]}, the last iteration and the files
// that the run made after it, relative to the folder.
inline constexpr const char* finished_file = "finished.json";

// Removes an earlier run's file, and syncs the folder. Called before a run makes steps, because it
// may reach the same iteration and be killed before it has made its own files. An error of kind
// cannot_write on all ranks says why it cannot be removed. Collective.
void remove_finished(Communicator& communicator, const OutputFolder& output);

// Writes the file on rank 0; if it cannot be written, all ranks throw an error of kind
// cannot_write. `files`: names in addition to Trainer::results() of all ranks. Collective.
void write_finished(const Trainer& trainer, const std::vector<std::string>& files,
                    Communicator& communicator, OutputFolder& output);

// Whether the run in that folder ended after this iteration and all its files exist, each where at
// least one rank sees it. Collective.
bool is_finished(const std::filesystem::path& folder, std::int64_t iteration,
                 Communicator& communicator);

inline constexpr const char* step_times_file = "step_times.json";

// Writes step_times.json into `output`, an array with an object for each device in the order of
// ranks: "rank", "worker" (from 0; ranks with several devices), "steps" of this run, and the mean
// seconds of a step's parts, "input" (waiting for its batch), "forward", "backward", "exchange",
// "update". `own`: of this rank, as the updater has measured them; false: no rank has. A file that
// cannot be written is an error of kind cannot_write on all ranks. Collective.
bool write_step_times(const RankTimes& own, Communicator& communicator, OutputFolder& output);

}  // namespace tasuki::program
