// Where checkpoints and snapshots lie in an output folder, and the files that record which of them
// is the latest and which the run left behind when it went back to an earlier iteration.
//
//   result/checkpoints/iter_400, iter_600, ...    checkpoints (checkpoint.hpp)
//   result/checkpoints/iter_800.tasuki-*.tmp      written or removed in part, by the process in
//                                                 its name (core/temporary_name.hpp)
//   result/snapshot_iter_600                      a snapshot; of a model on several ranks
//                                                 snapshot_iter_600.0, .1, ... for its parts
//   result/ema.npz      the averaged weights at the end of the run, with --ema
//   result/latest       one line: "checkpoints/iter_600", or "snapshot_iter_600": what was saved,
//                       or resumed from, last
//   result/tensorboard/     event files (event_file.hpp)
//   result/abandoned    a line for each checkpoint or snapshot that the run left behind; nothing
//                       resumes from them unasked
//
// Only folders that a run has made are removed. Such a folder has a manifest (a marker while it is
// written) and only files of a checkpoint.
//
// Errors are of kind io, or missing without permission, if what is there cannot be read (it is
// never taken for absent), and of kind data if `latest` or `best` (retention.hpp) names something
// outside its folder.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tasuki {

inline constexpr const char* checkpoints_name = "checkpoints";
inline constexpr const char* tensorboard_name = "tensorboard";
inline constexpr const char* latest_name = "latest";
inline constexpr const char* abandoned_name = "abandoned";
// Averaged weights (training/extensions/weight_average.hpp).
inline constexpr const char* averaged_weights_name = "ema.npz";
// The name that programs of older versions gave to the snapshot with the best value.
inline constexpr const char* best_snapshot_name = "snapshot_best";

// --- names ---

// "iter_600" is {600, 1}; "iter_600-2" is {600, 2}, of a run that went back and came to the same
// iteration again.
struct CheckpointName {
  std::int64_t iteration = 0;
  std::int64_t number = 1;

  std::string text() const;
  // Parses a folder's name; nothing for other names.
  static std::optional<CheckpointName> parse(std::string_view name);
  friend auto operator<=>(const CheckpointName&, const CheckpointName&) = default;
};

// The folder of a checkpoint in an output folder.
std::filesystem::path checkpoint_folder(const std::filesystem::path& out,
                                        const CheckpointName& name);
// The checkpoints in an output folder, whether valid or not, the highest first.
std::vector<CheckpointName> checkpoints_in(const std::filesystem::path& out);
// "checkpoints/iter_600" of a checkpoint's folder; of a snapshot, its file's name.
std::string name_in_folder(const std::filesystem::path& saved);
// The iteration in the name of a checkpoint or numbered snapshot; nothing for other names.
std::optional<std::int64_t> iteration_of(const std::filesystem::path& saved);
// iteration_of() for names of numbered snapshots alone.
std::optional<std::int64_t> iteration_of_snapshot(std::string_view name);
// The number that the next checkpoint of this iteration gets.
std::int64_t next_number(const std::filesystem::path& out, std::int64_t iteration);

// --- folders ---

// Makes a folder for writing a checkpoint, with a temporary name and the marker.
std::filesystem::path make_unfinished(const std::filesystem::path& checkpoint);
// Removes the marker, when there is a manifest.
void unmark(const std::filesystem::path& unfinished);
// Removes a checkpoint, or what make_unfinished() has made, if it can. Under its name, the
// checkpoint is never there in part.
void remove_checkpoint(const std::filesystem::path& checkpoint);
// What killed runs on this host left in checkpoints/: folders that are written or removed in part,
// and other temporary files.
std::vector<std::filesystem::path> unfinished_checkpoints_in(const std::filesystem::path& out);
// Removes them. No process may be writing there.
void remove_unfinished_checkpoints(const std::filesystem::path& out);

// --- latest and abandoned ---

// A run starts in `out`. If it resumes from a checkpoint or numbered snapshot there, `origin`,
// `latest` names that one, and all of higher iterations are abandoned; if the origin itself was
// abandoned before, everything else is abandoned. If nothing can be written in the folder, a
// warning is printed. Calling it again with the same origin changes nothing.
void record_start(const std::filesystem::path& out, const std::filesystem::path& origin);
// Names `saved`, a checkpoint or a snapshot in `out`, in the file `latest`. Several threads of the
// process that trains may save; those that finish late do not replace a name of a higher iteration.
// The first call of a run abandons all saved states of higher iterations.
void write_latest(const std::filesystem::path& out, const std::filesystem::path& saved);
// Call it before the checkpoint `saved` gets its name. Abandons what the first write_latest() of a
// run would abandon, and revokes the abandonment of an earlier checkpoint of this name. So `saved`
// counts as soon as it has its name, even if the process is killed before write_latest().
void announce_checkpoint(const std::filesystem::path& out, const std::filesystem::path& saved);
// What `latest` names (in older folders: last_snapshot), relative to `out`; nothing if there is
// none.
std::optional<std::filesystem::path> read_latest(const std::filesystem::path& out);
// What the one line of a file like `latest` names, relative to its folder; nothing if there is no
// such file.
std::optional<std::filesystem::path> saved_state_in(const std::filesystem::path& file);
// The names of all abandoned states, as `latest` would have them.
std::set<std::string> abandoned_in(const std::filesystem::path& out);
// Also abandons the states in `names` that are in `out`, on another disk than the one where the run
// started.
void abandon(const std::filesystem::path& out, const std::set<std::string>& names);

}  // namespace tasuki
