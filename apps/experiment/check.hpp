// What can be known of an experiment's runs before the first of them starts.
#pragma once

#include <vector>

#include "experiment/record.hpp"

namespace tasuki::experiment {

// Asks the program what flags it has, and about the flags of each run without result, with
// --print-config, which reads no data. An error of kind config names file and line, or the row. A
// program that does not know --print-config (its file does not contain the word) is not asked.
void check_flags(const ExperimentPlan& plan, const std::vector<RunRecord>& runs);

}  // namespace tasuki::experiment
