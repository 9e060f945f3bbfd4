// What a run can go on from, or a model can be taken from: checkpoints (folders, see
// training/checkpoints/generation.hpp) and snapshots (files), and the newest of them that is
// intact.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/communicator.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/snapshots/array_source.hpp"

namespace tasuki::program {

// Checkpoints and snapshots in the order in which they are tried.
struct SnapshotList {
  std::vector<std::filesystem::path> paths;
  bool is_of_folder = false;  // else it is the one that was asked for
};
// Those in an output folder: the newest first (training/checkpoints/generations.hpp), at last the
// snapshot_best of older versions. With several `parts` of a model, whose snapshots are files with
// the suffix .0, .1, ..., those of which the first part is there; paths are without the suffix.
SnapshotList snapshots_of(const std::filesystem::path& folder, int parts = 1);
// The same, at least one, or the one that `path` names; it may have the suffix of the first part,
// be a file in a checkpoint, which stands for all of it, or the file `best` or `latest`, which
// names another. A folder without any is an error, which
// begins with `flag` that named it, and so is a checkpoint that is not there: it says which ones
// are.
SnapshotList snapshots_at(const std::filesystem::path& path, std::string_view flag, int parts = 1);

// The path without the suffix of the first of several parts.
std::filesystem::path snapshot_of(const std::filesystem::path& file, int parts);
// Whether it is a checkpoint: a folder with a manifest, or with a checkpoint's name and place.
bool is_checkpoint(const std::filesystem::path& path);
// Follows the files `best` and `latest`: the checkpoint or snapshot that they name. Other paths
// stay as they are.
std::filesystem::path followed(const std::filesystem::path& path);
// The folder of the run that saved it.
std::filesystem::path output_folder_of(const std::filesystem::path& snapshot);
// 1 of "snapshot_iter_600.1"; nothing for files without such a suffix.
std::optional<int> part_number(const std::filesystem::path& file);
// The number of parts that the models in an output folder, or in a checkpoint, have.
int parts_in(const std::filesystem::path& folder);

// A checkpoint, snapshot or model file (which need not be of Tasuki). `part`: the suffix of a part
// of the model, or nothing.
std::unique_ptr<ArraySource> open_weights(const std::filesystem::path& path,
                                          const std::string& part = "");

// All parts of a snapshot, or of the first in a folder that is not damaged; says so if that is not
// simply the newest. One that cannot be read for another reason (is_damage) is an error.
std::vector<std::unique_ptr<ArraySource>> open_intact_snapshot(const std::filesystem::path& path,
                                                               std::string_view flag,
                                                               int parts = 1);

// The same of `snapshots`, at least one and the same on all ranks, which --resume named.
// Each of the first `parts` ranks opens its own, which may be on a disk that others do not see;
// parts of different saves are refused. Collective.
OpenedState open_intact_parts(const SnapshotList& snapshots, int parts, Communicator& communicator);

}  // namespace tasuki::program
