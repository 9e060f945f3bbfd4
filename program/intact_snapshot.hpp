// The newest intact snapshot in a folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "tasuki/training/snapshots/npz.hpp"

namespace tasuki::program {

// The snapshots in a folder in the order in which they are tried: the newest first, the best one
// last.
std::vector<std::filesystem::path> snapshots_to_try(const std::filesystem::path& folder);

// A snapshot, or the first intact one of a folder; says so if that is not simply the one with the
// highest number. Errors about the folder begin with `flag`, which named it.
std::unique_ptr<NpzFile> open_intact_snapshot(const std::filesystem::path& path,
                                              std::string_view flag);

}  // namespace tasuki::program
