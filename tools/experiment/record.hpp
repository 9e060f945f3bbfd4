// The results of a run: its folder, the program's log, and a record that marks it as done.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/experiment/origin.hpp"
#include "tools/experiment/plan.hpp"

namespace tasuki::experiment {

// Steps at the start of a run that do not count when single steps are timed: they create primitives
// and time convolutions.
inline constexpr std::int64_t warm_up_steps = 3;

// Results from the program's log, and the time that the command took.
struct RunResult {
  double seconds = 0;       // of training, evaluation included: the log's elapsed_time
  double wall_seconds = 0;  // from start to end of the command
  std::int64_t epochs = 0, iterations = 0;
  std::optional<double> loss, accuracy;  // on the data to evaluate on, at the end
  std::optional<double> first_epoch_seconds;
  std::optional<double> epoch_seconds;  // median over all epochs but the first
  // Median time of single steps or groups of steps (--log-every), without the first steps and
  // without those at the end of an epoch, which include the evaluation.
  std::optional<double> step_seconds;
};

// A run of the plan and its state. A run without a result was not done or failed; `failure` is the
// cause.
struct RunRecord {
  RunSettings settings;
  std::filesystem::path folder;      // below the experiment's: run.json, output.log, result/
  std::vector<std::string> command;  // with --out naming the folder's result/
  std::optional<RunResult> result;
  std::optional<RunOrigin> origin;  // of the result
  std::string failure;
};

// The runs of a plan, with the results of earlier starts in `folder`. A run is identified by the
// program's name, its flags and its launcher; if one of these changes, it is a new run.
std::vector<RunRecord> read_records(const ExperimentPlan& plan,
                                    const std::filesystem::path& folder);

// Writes run.json atomically.
void write_record(const RunRecord& record);

// Marks the run as not done; its former record becomes run.previous.json.
void forget_record(RunRecord& record);

// Reads the JSON array that training programs write. An error of kind data says what it lacks.
RunResult read_training_log(const std::filesystem::path& log);

}  // namespace tasuki::experiment
