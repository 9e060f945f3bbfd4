// step_times.json, beside the log: where each rank's time went, so that runs can be compared.
#pragma once

#include "training/output_folder.hpp"
#include "training/step_times.hpp"

namespace tasuki::program {

inline constexpr const char* step_times_file = "step_times.json";

// Writes step_times.json into `output`, an array with an object for each device in the order of
// ranks: "rank", "worker" (from 0; ranks with several devices), "steps" of this run, and the mean
// seconds of a step's parts, "input" (waiting for its batch), "forward", "backward", "exchange",
// "update". `own`: of this rank, as the updater has measured them; false: no rank has. A file that
// cannot be written is an error of kind cannot_write on all ranks. Collective.
bool write_step_times(const RankTimes& own, Communicator& communicator, OutputFolder& output);

}  // namespace tasuki::program
