// The newest intact snapshot in a folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/training/snapshots/array_source.hpp"

namespace tasuki::program {

// Snapshots in the order in which they are tried.
struct SnapshotList {
  std::vector<std::filesystem::path> paths;
  bool is_of_folder = false;  // else it is the one that was asked for
};
// Those in a folder: the newest first, the best one last. With several `parts` of a model, each
// saved in a file with the suffix .0, .1, ..., those whose first part is there; paths are without
// the suffix.
SnapshotList snapshots_of(const std::filesystem::path& folder, int parts = 1);
// The same, at least one, or `path` itself if it is no folder; it may have the suffix of the first
// part. A folder without snapshots is an error, which begins with `flag` that named it.
SnapshotList snapshots_at(const std::filesystem::path& path, std::string_view flag, int parts = 1);

// The path without the suffix of the first of several parts.
std::filesystem::path snapshot_of(const std::filesystem::path& file, int parts);

// A snapshot, or the first of a folder that is intact in all parts; says so if that is not simply
// the one with the highest number. Of several parts, returns the first one's file.
std::unique_ptr<ArraySource> open_intact_snapshot(const std::filesystem::path& path,
                                                  std::string_view flag, int parts = 1);

struct IntactSnapshot {
  std::filesystem::path path;         // without suffix; the same on all ranks
  std::unique_ptr<ArraySource> part;  // this rank's; null on ranks that open none
};
// The first of `snapshots`, at least one and the same on all ranks, of which all parts are intact.
// Each of the first `parts` ranks opens its own, which may be on a disk that others do not see.
// Collective.
IntactSnapshot open_intact_parts(const SnapshotList& snapshots, int parts,
                                 Communicator& communicator);

}  // namespace tasuki::program
