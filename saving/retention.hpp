// Which checkpoints (output_layout.hpp) an output folder keeps: the newest few, and the best one.
//
//   result/best    one line: the checkpoint with the best value of --keep-best
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "saving/writers.hpp"

namespace tasuki {

inline constexpr const char* best_name = "best";

// Writes the name of the checkpoint `saved` into the file `best`. With an empty path there is no
// best one, and the file is removed.
void write_best(const std::filesystem::path& out, const std::filesystem::path& saved);
// The folder that `best` names; nothing if there is none.
std::optional<std::filesystem::path> best_checkpoint(const std::filesystem::path& out);

// Removes all checkpoints except the best one and the newest `keep`, at least one. `saved` is the
// newest. Abandoned ones and those of higher iterations do not count and stay; so does what cannot
// be removed.
void remove_old_checkpoints(const std::filesystem::path& out, const std::filesystem::path& saved,
                            int keep);

// Whether the cause of an error is a full disk or an exceeded quota.
bool is_of_full_disk(const Error& error);
// Makes room on full disks for a checkpoint of this iteration. Keeps the best one and the newest
// one that is intact on all disks, all of whose files it reads; removes the others up to this
// iteration from all disks. Nothing is removed if none is intact. Abandoned ones, those of higher
// iterations and those that cannot be read for another reason than damage stay. Returns the names
// of what was removed, "iter_400", the newest first, the same on all writers, all of which call it
// with Writers::first_on_disk of `out` (empty: not known).
std::vector<std::string> make_room(const std::filesystem::path& out, std::int64_t iteration,
                                   const Writers& writers, const std::vector<int>& first_on_disk);

}  // namespace tasuki
