// The newest intact snapshot in a folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "tasuki/training/snapshots/npz.hpp"

namespace tasuki::program {

// The snapshots in a folder in the order in which they are tried: the newest first, the best one
// last. With several `parts` of a model, each saved in a file with the suffix .0, .1, ..., paths
// are without it; snapshots that lack a part come only where all do, as in folders of several
// machines.
std::vector<std::filesystem::path> snapshots_to_try(const std::filesystem::path& folder,
                                                    int parts = 1);

// A snapshot, or the first intact one of a folder; says so if that is not simply the one with the
// highest number. Errors about the folder begin with `flag`, which named it. Of several parts,
// opens the first one's file; `path` may have its suffix.
std::unique_ptr<NpzFile> open_intact_snapshot(const std::filesystem::path& path,
                                              std::string_view flag, int parts = 1);
// The path without the suffix of the first of several parts.
std::filesystem::path snapshot_of(const std::filesystem::path& file, int parts);

}  // namespace tasuki::program
