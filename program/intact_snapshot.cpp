#include "tasuki/program/intact_snapshot.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/training/extensions/snapshot.hpp"

namespace tasuki::program {
namespace {

// Says why it is not simply the snapshot with the highest number.
void explain_choice(const std::filesystem::path& chosen,
                    const std::vector<std::filesystem::path>& candidates) {
  if (chosen.filename() == best_snapshot_name)
    log_warning("there is no snapshot_iter_<number> to go on from in {}; taking {}",
                chosen.parent_path().string(), chosen.string());
  const auto later = std::ranges::find(candidates, chosen) + 1;
  // Names with higher numbers are longer, or later in the alphabet.
  const auto number = [](const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    return std::pair(name.size(), name);
  };
  for (auto each = later; each != candidates.end(); ++each)
    if (each->filename() != best_snapshot_name && number(*each) > number(chosen))
      log_info("ignoring {}: it belongs to an abandoned run; the last run was at {}",
               each->string(), chosen.filename().string());
}

}  // namespace

std::vector<std::filesystem::path> snapshots_to_try(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> candidates = snapshots_in(folder);
  std::error_code ignored;
  if (const auto best = folder / best_snapshot_name; std::filesystem::exists(best, ignored))
    candidates.push_back(best);
  return candidates;
}

std::unique_ptr<NpzFile> open_intact_snapshot(const std::filesystem::path& path,
                                              std::string_view flag) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored))
    return std::make_unique<NpzFile>(path, /*require_hash=*/true);
  const std::vector<std::filesystem::path> snapshots = snapshots_to_try(path);
  if (snapshots.empty())
    fail(ErrorKind::missing, "{} {}: there is no snapshot_iter_<number> in this folder", flag,
         path.string());
  for (std::size_t i = 0;; ++i) {
    try {
      auto file = std::make_unique<NpzFile>(snapshots[i], /*require_hash=*/true);
      explain_choice(snapshots[i], snapshots);
      return file;
    } catch (const Error& error) {
      if (i + 1 == snapshots.size()) throw;
      log_warning("{}; using the snapshot before it", error.what());
    }
  }
}

}  // namespace tasuki::program
