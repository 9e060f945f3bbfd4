// What else two output folders have in common: settings, logs, saved states.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tasuki::diff {

// A value of each run, as text; empty: it has none.
struct Pair {
  std::string name;
  std::string a, b;
};

// The settings in two runs' about.json that differ and that results may depend on: flags
// ("--seed"), and program, version, machine, device, data and ranks. Flags of outputs are left out.
// Nothing if a run has no about.json. An error of kind data if one is damaged.
std::optional<std::vector<Pair>> compare_settings(const std::filesystem::path& a,
                                                  const std::filesystem::path& b);

struct LogComparison {
  std::int64_t common = 0;                      // entries of the same iteration
  std::optional<std::int64_t> last_equal = {};  // iteration of an entry before the one that differs
  std::optional<std::int64_t> different = {};   // of the first entry that differs
  std::vector<Pair> values = {};                // that differ there
};
// Compares what both logs have at the same iterations, but for times. Nothing if a run has no log.
std::optional<LogComparison> compare_logs(const std::filesystem::path& a,
                                          const std::filesystem::path& b);

// A checkpoint or snapshot of the same iteration of both runs.
struct CommonState {
  std::int64_t iteration = 0;
  std::filesystem::path a, b;  // without the suffix of a part
};
// In ascending order. `parts`: of the model, in files of their own.
std::vector<CommonState> common_states(const std::filesystem::path& a,
                                       const std::filesystem::path& b, int parts);

}  // namespace tasuki::diff
