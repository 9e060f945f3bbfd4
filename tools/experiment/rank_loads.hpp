// How busy each rank of a run was, according to --monitor and step_times.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tasuki::experiment {

// The load of one device. Load and memory are medians over the lines of its monitor file, and a
// GPU's where the rank has one.
struct RankLoad {
  std::string name;  // "0"; "0.1" is the second device of rank 0
  std::optional<double> load_percent, memory_mb;
  std::optional<double> input_seconds, step_seconds;  // of a step: waiting for its batch; in total
};

// In the order of ranks; empty without monitor files. `folder`: the results of the run. An error of
// kind data names a file that is not as programs write it.
std::vector<RankLoad> read_rank_loads(const std::filesystem::path& folder);

// Removes the monitor files in `folder`, where a new run will start, perhaps without --monitor or
// with fewer ranks. An error of kind cannot_write names a file that cannot be removed.
void remove_monitor_files(const std::filesystem::path& folder);

}  // namespace tasuki::experiment
