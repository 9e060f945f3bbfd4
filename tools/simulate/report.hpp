// The output of `tasuki-simulate`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/simulate/calibration.hpp"
#include "tools/simulate/fit.hpp"
#include "tools/simulate/model.hpp"

namespace tasuki::simulate {

// One line of the table.
struct PredictionRow {
  int ranks = 1, nodes = 1;
  Prediction prediction{};
  double efficiency = 1;      // examples per second and rank, compared with one rank
  double without_jitter = 1;  // efficiency if all ranks were equally fast
  double examples_per_second = 0;
};

struct Question {
  Workload one;      // rank alone
  Workload several;  // one of several ranks
  Cluster cluster{};
  double batch = 1;                      // examples per rank, in both
  std::optional<double> global_batch{};  // of all ranks; empty: each rank keeps its `batch`
  bool overlaps = true;
  std::optional<LocalSync> local{};  // empty: gradients of all ranks in each step
};

// For each number of ranks.
std::vector<PredictionRow> rows_of(const Question& question, const std::vector<int>& ranks);

// "model: ..." and "link: ..."; `source`: the origin of the link's numbers.
std::string describe(const Workload& workload);
std::string describe(const Cluster& cluster, const std::string& source);
// "of the exchange of 61.0 ms, ...".
std::string describe(const Hiding& hiding);
// Columns of numbers under a line of titles.
std::string table_text(const std::vector<PredictionRow>& rows);

// "memory of a machine with 2 of 4 ranks: 146.2 MB weights, ...".
std::string describe(const MachineMemory& memory, const Machine& machine);
// Columns of numbers and the flags of each row, under a line that says what was asked, and a line
// of titles.
std::string fit_text(const FitQuestion& question, const std::vector<FitRow>& rows, double bytes);

// All of it, in seconds and bytes.
nlohmann::json as_json(const Question& question, const std::vector<PredictionRow>& rows,
                       const std::optional<Hiding>& hiding);
nlohmann::json as_json(const MachineMemory& memory);
nlohmann::json as_json(const std::vector<FitRow>& rows);

}  // namespace tasuki::simulate
