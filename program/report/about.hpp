// about.json, beside the log: what a run was made with, so that runs can be compared.
#pragma once

#include <string>

#include "tasuki/program/start/setup.hpp"

namespace tasuki::program {

inline constexpr const char* about_file = "about.json";

// Writes about.json into `output`, an object: "version" (of Tasuki and its libraries), rank 0's
// "host", "machine" and "device", "data" (the folder), "ranks" and "global_batch". An error is one
// on all ranks. Collective.
void write_about(const RankSetup& setup, const TrainingSettings& settings, OutputFolder& output,
                 const std::string& data);

}  // namespace tasuki::program
