// One file with all that a loop of the program's own needs to go on: weights, optimizer, numbers.
// Runs with a Trainer have save_snapshot(), Checkpoint and resume() instead.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "optimizer/local_steps.hpp"
#include "optimizer/optimizer.hpp"

namespace tasuki {

// The program's own position: steps done, the solver's time step, ...
using ProgramNumbers = std::map<std::string, std::int64_t>;

// Writes the model and the optimizer with their names in snapshots (tasuki-predict and load_npz
// read the weights there), and the numbers. Rank 0 writes, atomically and synced to disk; if it
// cannot, the old file stays and all ranks throw. Buffers of each rank are kept. Between two steps;
// collective over the optimizer's communicator. `local_steps`: which the optimizer trains with; it
// is synchronised and saved, too, and the call is collective over LocalSteps::all().
void save_training(const std::filesystem::path& path, Optimizer& optimizer,
                   const ProgramNumbers& numbers = {}, LocalSteps* local_steps = nullptr);

// Loads them into an optimizer that was set up, and returns the numbers. A loop that goes on with
// the same batches has the bits of one that was not interrupted. All ranks throw the same error if
// there is no such file, or if it is damaged or of another model or optimizer. Collective.
ProgramNumbers load_training(const std::filesystem::path& path, Optimizer& optimizer,
                             LocalSteps* local_steps = nullptr);

}  // namespace tasuki
