#include "tasuki/program/intact_snapshot.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <system_error>
#include <utility>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/training/extensions/snapshot.hpp"
#include "tasuki/training/snapshots/npz.hpp"

namespace tasuki::program {
namespace {

namespace fs = std::filesystem;

constexpr const char* numbered = "snapshot_iter_{iteration}";

fs::path file_of(fs::path snapshot, int part, int parts) {
  if (parts > 1) snapshot += fmt::format(".{}", part);
  return snapshot;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// What there is in place of a snapshot of `parts` files, if it is one of more or fewer.
std::string found_instead(const fs::path& snapshot, int parts) {
  if (parts > 1 && is_there(snapshot))
    return fmt::format("; {} is of a whole model, and this run has a model on {} ranks",
                       snapshot.string(), parts);
  int found = 0;
  while (is_there(file_of(snapshot, found, 2))) ++found;
  // Other disks may have further parts.
  if (found == 0 || (parts > 1 && (found == 1 || found == parts))) return "";
  return fmt::format("; {}.0 is a part of a model on {} ranks, and this run has {}",
                     snapshot.string(), found == 1 ? "several" : std::to_string(found),
                     parts > 1 ? fmt::format("a model on {} ranks", parts) : "whole models");
}

std::unique_ptr<ArraySource> open_part(const fs::path& snapshot, int part, int parts) {
  const fs::path file = file_of(snapshot, part, parts);
  if (!is_there(file))
    fail(ErrorKind::missing, "cannot read {}: no such file{}", file.string(),
         found_instead(snapshot, parts));
  return std::make_unique<NpzFile>(file, /*require_hash=*/true);
}

// Says why it is not simply the snapshot with the highest number.
void explain_choice(const fs::path& chosen, const std::vector<fs::path>& candidates) {
  if (chosen.filename() == best_snapshot_name)
    log_warning("there is no snapshot_iter_<number> to go on from in {}; taking {}",
                chosen.parent_path().string(), chosen.string());
  const auto later = std::ranges::find(candidates, chosen) + 1;
  // Names with higher numbers are longer, or later in the alphabet.
  const auto number = [](const fs::path& path) {
    const std::string name = path.filename().string();
    return std::pair(name.size(), name);
  };
  for (auto each = later; each != candidates.end(); ++each)
    if (each->filename() != best_snapshot_name && number(*each) > number(chosen))
      log_info("ignoring {}: it belongs to an abandoned run; the last run was at {}",
               each->string(), chosen.filename().string());
}

// The first that `open` does not fail on. `says`: whether this rank prints what it passes over.
fs::path first_intact(const SnapshotList& snapshots, bool says,
                      const std::function<void(const fs::path&)>& open) {
  const auto& paths = snapshots.paths;
  for (std::size_t i = 0;; ++i) {
    try {
      open(paths.at(i));
      if (says && snapshots.is_of_folder) explain_choice(paths[i], paths);
      return paths[i];
    } catch (const Error& error) {
      if (i + 1 == paths.size()) throw;
      if (says) log_warning("{}; using the snapshot before it", error.what());
    }
  }
}

}  // namespace

SnapshotList snapshots_of(const fs::path& folder, int parts) {
  SnapshotList list{snapshots_in(folder, numbered, file_of("", 0, parts).string()), true};
  if (const auto best = folder / best_snapshot_name; is_there(file_of(best, 0, parts)))
    list.paths.push_back(best);
  return list;
}

SnapshotList snapshots_at(const fs::path& path, std::string_view flag, int parts) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return {{snapshot_of(path, parts)}};
  SnapshotList list = snapshots_of(path, parts);
  if (!list.paths.empty()) return list;
  const auto others = snapshots_in(path, numbered, parts > 1 ? "" : ".0");
  const std::string instead = others.empty() ? ""
                                             : (parts > 1 ? ", only those of a whole model"
                                                          : ", only those of parts of a model") +
                                                   found_instead(others.front(), parts);
  fail(ErrorKind::missing, "{} {}: there is no snapshot_iter_<number>{} in this folder{}", flag,
       path.string(), file_of("", 0, parts).string(), instead);
}

fs::path snapshot_of(const fs::path& file, int parts) {
  const std::string suffix = file_of("", 0, parts).string(), text = file.string();
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

std::unique_ptr<ArraySource> open_intact_snapshot(const fs::path& path, std::string_view flag,
                                                  int parts) {
  std::unique_ptr<ArraySource> first;
  first_intact(snapshots_at(path, flag, parts), true, [&](const fs::path& snapshot) {
    first = open_part(snapshot, 0, parts);
    for (int part = 1; part < parts; ++part) open_part(snapshot, part, parts);
  });
  return first;
}

IntactSnapshot open_intact_parts(const SnapshotList& snapshots, int parts,
                                 Communicator& communicator) {
  IntactSnapshot found;
  const int rank = communicator.rank();
  found.path = first_intact(snapshots, rank == 0, [&](const fs::path& snapshot) {
    run_on_all(communicator, [&] {
      if (rank < parts) found.part = open_part(snapshot, rank, parts);
    });
  });
  return found;
}

}  // namespace tasuki::program
