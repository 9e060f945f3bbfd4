// Which checkpoints (output_layout.hpp) of an output folder remain: the newest few, and the best
// one.
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

// Names the checkpoint `saved` in the file `best`; an empty path: there is no best one, and the
// file is removed.
void write_best(const std::filesystem::path& out, const std::filesystem::path& saved);
// The folder that it names; nothing if there is none.
std::optional<std::filesystem::path> best_checkpoint(const std::filesystem::path& out);

// Removes all but the newest `keep` checkpoints, at least one, and the best one. `saved` is the
// newest. What is abandoned or of a higher iteration does not count, and stays, as does what cannot
// be removed.
void remove_old_checkpoints(const std::filesystem::path& out, const std::filesystem::path& saved,
                            int keep);

// Whether an error says that a disk is full, or the quota on it.
bool is_of_full_disk(const Error& error);
// Makes room on full disks for a checkpoint of this iteration: removes, on all disks, those up to
// it but the best and the newest one that is intact on all disks, of which it reads all files.
// Nothing is removed if none is intact, and neither is what cannot be read for other reasons than
// damage, what is abandoned or of a higher iteration. Returns the names of what was removed,
// "iter_400", the newest first. All writers call it, with Writers::first_on_disk of `out` (empty:
// not known), and return the same.
std::vector<std::string> make_room(const std::filesystem::path& out, std::int64_t iteration,
                                   const Writers& writers, const std::vector<int>& first_on_disk);

}  // namespace tasuki
