// Where two runs part, by the hashes that --hash-every has written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "training/step_hashes.hpp"

namespace tasuki::diff {

struct GroupDifference {
  std::string name;                    // "gradients"
  std::int64_t arrays = 0;             // of both runs
  std::vector<std::string> differing;  // paths in the model's order; of what one run lacks, too
  std::string what = "";               // "only the first run has them"; empty: both do
};

struct HashComparison {
  std::int64_t common = 0;                  // iterations that both have
  std::optional<std::int64_t> first, last;  // of these
  std::optional<std::int64_t> last_equal;   // before the one that differs
  std::optional<std::int64_t> different;    // the first one that differs
  // Of that iteration.
  bool has_loss = false, loss_differs = false;
  std::optional<double> loss_a = {}, loss_b = {};
  std::vector<GroupDifference> groups = {};  // all, in the order in which a step computes them
};

// Compares two files up to the first difference.
HashComparison compare_hashes(const std::filesystem::path& a, const std::filesystem::path& b);
// What differs between the hashes of an iteration.
std::vector<GroupDifference> compare_groups(const StepHashes& a, const StepHashes& b);

}  // namespace tasuki::diff
