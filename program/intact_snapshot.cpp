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

std::filesystem::path file_of(std::filesystem::path snapshot, int part, int parts) {
  if (parts > 1) snapshot += fmt::format(".{}", part);
  return snapshot;
}

bool is_complete(const std::filesystem::path& snapshot, int parts) {
  std::error_code ignored;
  for (int part = 0; part < parts; ++part)
    if (!std::filesystem::exists(file_of(snapshot, part, parts), ignored)) return false;
  return true;
}

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

// What a folder without snapshots of so many parts has in place of them, for an error.
std::string describe_others(const std::filesystem::path& folder, int parts) {
  if (snapshots_to_try(folder, parts == 1 ? 2 : 1).empty()) return "";
  return parts == 1 ? ", only those of parts of a model, which several ranks hold"
                    : ", only those of a whole model, which one rank holds";
}

}  // namespace

std::vector<std::filesystem::path> snapshots_to_try(const std::filesystem::path& folder,
                                                    int parts) {
  std::vector<std::filesystem::path> candidates =
      snapshots_in(folder, "snapshot_iter_{iteration}", file_of("", 0, parts).string());
  std::error_code ignored;
  if (const auto best = folder / best_snapshot_name;
      std::filesystem::exists(file_of(best, 0, parts), ignored))
    candidates.push_back(best);
  const auto lacks_parts = [parts](const auto& each) { return !is_complete(each, parts); };
  if (!std::ranges::all_of(candidates, lacks_parts)) std::erase_if(candidates, lacks_parts);
  return candidates;
}

std::filesystem::path snapshot_of(const std::filesystem::path& file, int parts) {
  const std::string suffix = file_of("", 0, parts).string(), path = file.string();
  return path.ends_with(suffix) ? path.substr(0, path.size() - suffix.size()) : path;
}

std::unique_ptr<NpzFile> open_intact_snapshot(const std::filesystem::path& path,
                                              std::string_view flag, int parts) {
  const auto open = [parts](const std::filesystem::path& snapshot) {
    return std::make_unique<NpzFile>(file_of(snapshot, 0, parts), /*require_hash=*/true);
  };
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return open(snapshot_of(path, parts));
  const std::vector<std::filesystem::path> snapshots = snapshots_to_try(path, parts);
  if (snapshots.empty())
    fail(ErrorKind::missing, "{} {}: there is no snapshot_iter_<number>{} in this folder{}", flag,
         path.string(), file_of("", 0, parts).string(), describe_others(path, parts));
  for (std::size_t i = 0;; ++i) {
    try {
      auto file = open(snapshots[i]);
      explain_choice(snapshots[i], snapshots);
      return file;
    } catch (const Error& error) {
      if (i + 1 == snapshots.size()) throw;
      log_warning("{}; using the snapshot before it", error.what());
    }
  }
}

}  // namespace tasuki::program
