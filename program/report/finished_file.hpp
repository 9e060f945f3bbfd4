// finished.json: that a run has made all that follows its last iteration.
#pragma once

#include <cstdint>
#include <filesystem>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/training/output_folder.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki::program {

// In --out: {"iteration": 40, "files": ["snapshot_iter_40", ...]}, the last iteration and what the
// run has left of it, from the folder on.
inline constexpr const char* finished_file = "finished.json";

// Writes it, on rank 0; an error of kind cannot_write on all ranks says why not. `files`: names
// beside Trainer::results(). Collective.
void write_finished(const Trainer& trainer, const std::vector<std::string>& files,
                    Communicator& communicator, OutputFolder& output);

// Whether the run in that folder has ended after this iteration and all its files are there.
// Rank 0 looks. Collective.
bool is_finished(const std::filesystem::path& folder, std::int64_t iteration,
                 Communicator& communicator);

}  // namespace tasuki::program
