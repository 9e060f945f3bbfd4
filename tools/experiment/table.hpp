// Tables of an experiment, as in articles: processes, nodes, time, speed-up, efficiency, accuracy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/terminal.hpp"
#include "tools/experiment/rank_loads.hpp"
#include "tools/experiment/record.hpp"

namespace tasuki::experiment {

// One point of the grid, over its repeats.
struct TableRow {
  RunSettings settings;
  std::vector<std::string> command;  // of the first repeat
  int done = 0;                      // repeats with a result
  std::string failure;               // of the first repeat without a result
  // Medians over the finished repeats; nothing if there are none.
  std::optional<RunResult> result;
  std::vector<RunOrigin> origins;             // of the finished repeats
  std::vector<RankLoad> loads;                // of the first of them, if it was monitored
  std::optional<double> examples_per_second;  // of the steady steps if the log has single steps
  // Work per second relative to the first row that differs only in the plan's `compare`. Whole
  // epochs are the same work; in runs shortened by --max-iterations, work is the number of
  // examples.
  std::optional<double> speedup;
  std::optional<double> efficiency;  // speed-up / (processes / processes of that row)
};

std::vector<TableRow> summarise(const ExperimentPlan& plan, const std::vector<RunRecord>& runs);

// A line that says which rows were made with which version, machine and data, and what to do about
// it; empty if there is only one combination.
std::string warn_of_mixture(const std::vector<TableRow>& rows);

// A heading, the machine, the table, the load of each rank where runs were monitored, the command
// of each row, and a note if rows were made differently. Rows with more computing threads than
// cores are marked. Lines have at most `width` characters, as on a terminal: tables that are too
// wide for Markdown are aligned instead, with titles over several lines. Commands stay whole, to be
// copied.
std::string markdown_text(const ExperimentPlan& plan, const std::vector<TableRow>& rows,
                          const std::string& machine, std::size_t width = unlimited_width);

}  // namespace tasuki::experiment
