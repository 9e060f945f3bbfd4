// The plot of an experiment, drawn by gnuplot.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/experiment/table.hpp"

namespace tasuki::experiment {

// A gnuplot script with the data in it, which draws to `image` (.svg or .png by its ending). If the
// number of processes varies, it plots speed-up against processes, with a line for each combination
// of other settings and the ideal line. Otherwise it draws a bar with the time of each row.
std::string gnuplot_script(const ExperimentPlan& plan, const std::vector<TableRow>& rows,
                           const std::string& image);

}  // namespace tasuki::experiment
