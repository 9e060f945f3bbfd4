// What tasuki-diff says.
#pragma once

#include <filesystem>
#include <string>

namespace tasuki::diff {

struct Report {
  std::string text;  // lines
  bool differs = false;
};

// `all`: names every array that differs, not only the first few. Errors, in one line: what cannot
// be read, is damaged, or has nothing in common.
//
// Of two output folders: settings, hashes, logs, and saved states of the same iteration. These are
// the first ones from the iteration on in which hashes differ, or else the last ones; without
// hashes, the first ones that differ.
Report compare_runs(const std::filesystem::path& a, const std::filesystem::path& b, bool all);
// Of two snapshots, checkpoints or model files.
Report compare_files(const std::filesystem::path& a, const std::filesystem::path& b, bool all);

}  // namespace tasuki::diff
