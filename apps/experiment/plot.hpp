// The plot of an experiment, drawn by gnuplot.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiment/table.hpp"

namespace tasuki::experiment {

// A script with its data in it that draws to `image` (its ending decides: .svg or .png). Where the
// number of processes varies: speed-up over processes, a line for each other setting, beside the
// ideal one. Else a bar for each row with its time.
std::string gnuplot_script(const ExperimentPlan& plan, const std::vector<TableRow>& rows,
                           const std::string& image);

}  // namespace tasuki::experiment
