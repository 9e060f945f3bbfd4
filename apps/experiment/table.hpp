// Tables of an experiment, in the form of articles: processes, nodes, time, speed-up, efficiency,
// accuracy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiment/record.hpp"

namespace tasuki::experiment {

// One point of the grid, over its repeats.
struct TableRow {
  RunSettings settings;
  std::vector<std::string> command;  // of the first repeat
  int done = 0;                      // repeats with a result
  std::string failure;               // of the first repeat that has none
  // Medians over the repeats that are done; nothing when none is.
  std::optional<RunResult> result;
  std::vector<RunOrigin> origins;             // of the repeats that are done
  std::optional<double> examples_per_second;  // of the steady steps if the log has single ones
  // Relative to the first row that differs in the plan's `compare` only: work a second. Whole
  // epochs are the same work; of runs that --max-iterations cut, examples.
  std::optional<double> speedup;
  std::optional<double> efficiency;  // speed-up / (processes / processes of that row)
};

std::vector<TableRow> summarise(const ExperimentPlan& plan, const std::vector<RunRecord>& runs);

// A line for each run, repeats too: settings, numbers, state.
std::string csv_text(const ExperimentPlan& plan, const std::vector<RunRecord>& runs);

// A line that says which rows were made with which version, machine and data, and what to do; empty
// where all were made alike.
std::string warn_of_mixture(const std::vector<TableRow>& rows);

// A heading, the machine, the table, the command of each row, and a note where rows are not alike.
std::string markdown_text(const ExperimentPlan& plan, const std::vector<TableRow>& rows,
                          const std::string& machine);

}  // namespace tasuki::experiment
