// Checks an experiment's runs before the first one starts.
#pragma once

#include <vector>

#include "tools/experiment/record.hpp"

namespace tasuki::experiment {

// Calls the program with --print-config, which reads no data, to ask for its flags and to check the
// flags of each run without a result. An error of kind config names file and line, or the row. A
// program that does not contain the word --print-config is not called.
void check_flags(const ExperimentPlan& plan, const std::vector<RunRecord>& runs);

}  // namespace tasuki::experiment
