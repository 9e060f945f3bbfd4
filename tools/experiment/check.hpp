// Checks of an experiment's runs before the first of them starts.
#pragma once

#include <vector>

#include "tools/experiment/record.hpp"

namespace tasuki::experiment {

// Asks the program which flags it has, and checks the flags of each run without a result, by
// calling it with --print-config, which reads no data. An error of kind config names file and line,
// or the row. A program that does not contain the word --print-config is not asked.
void check_flags(const ExperimentPlan& plan, const std::vector<RunRecord>& runs);

}  // namespace tasuki::experiment
