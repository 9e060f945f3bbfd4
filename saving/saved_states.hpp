// Finding and opening what runs have saved, to resume from or to take a model from: checkpoints
// (folders, checkpoint.hpp) and snapshots (files). A saved state is either of them.
//
// A damaged state is skipped with a warning if there is an older one to use instead. One that
// cannot be read for another reason (is_damage) is an error: it may be intact, and training would
// lose the steps after the older one for nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/communicator.hpp"
#include "saving/npz.hpp"

namespace tasuki {

class ReplicaSet;

// --- what there is ---

// A snapshot or a checkpoint in an output folder.
struct SavedState {
  std::filesystem::path path;  // without the suffix of a part
  std::int64_t iteration = 0;
  bool is_checkpoint = false;
};
// All saved states in a folder, the best one to resume from first: by iteration, the highest first;
// in the same iteration the one that `latest` names, then checkpoints by number, then the snapshot.
// Last come those that the file `abandoned` lists, and snapshots of higher iterations than
// `latest`: a snapshot gets its name after `latest` is written, so these are of an earlier run. A
// checkpoint gets its name before `latest` is written, so one of a higher iteration is of this run,
// which was killed in between. `suffix`: of snapshots of a part of a model.
std::vector<SavedState> saved_states_in(const std::filesystem::path& out,
                                        const std::string& suffix = "");

// Whether `path` is a checkpoint: a folder with a manifest, or with a checkpoint's name and place.
bool is_checkpoint(const std::filesystem::path& path);
// Follows the files `best` and `latest`: the checkpoint or snapshot that they name. Other paths
// stay as they are.
std::filesystem::path followed(const std::filesystem::path& path);
// The output folder of the run that saved `saved`.
std::filesystem::path output_folder_of(const std::filesystem::path& saved);
// The number of parts that the models in an output folder, or in a checkpoint, have.
int model_parts_in(const std::filesystem::path& folder);
// 1 of "snapshot_iter_600.1"; nothing for files without such a suffix.
std::optional<int> part_number(const std::filesystem::path& file);
// The path without the suffix of the first of several parts.
std::filesystem::path without_part_suffix(const std::filesystem::path& file, int parts);

// Checkpoints and snapshots in the order in which they are tried.
struct SavedStateList {
  std::vector<std::filesystem::path> paths;
  bool is_of_folder = false;  // else it is the one that was asked for
};
// The saved states in an output folder, as saved_states_in() sorts them, then the snapshot_best of
// older versions. With several parts, snapshots are files .0, .1, ...: those whose first part is
// there count, and paths have no suffix.
SavedStateList list_saved_states(const std::filesystem::path& folder, int parts = 1);
// What `path` names; at least one. An output folder: list_saved_states(). A checkpoint, a file in
// one, a snapshot (or its first part's file), `best` or `latest`: only that one. Errors begin with
// `flag`, which gave the path: a folder without saved states, or a checkpoint that does not exist
// (the error lists those that do).
SavedStateList find_saved_states(const std::filesystem::path& path, std::string_view flag,
                                 int parts = 1);

// --- opening ---

// Opens a checkpoint (`path` is a folder) or a snapshot. `part`: the suffix of a part of the model.
std::unique_ptr<ArraySource> open_saved_state(const std::filesystem::path& path,
                                              const std::string& part = "");

// Opens a checkpoint, a snapshot or a model file, which Tasuki need not have written. Follows
// `best` and `latest`.
std::unique_ptr<ArraySource> open_weights(const std::filesystem::path& path,
                                          const std::string& part = "");

// Opens all parts of what `path` names; in a folder, of the newest intact state, with a message if
// a newer one was passed over. `flag` gave the path.
std::vector<std::unique_ptr<ArraySource>> open_newest_intact(const std::filesystem::path& path,
                                                             std::string_view flag, int parts = 1);

// What a run resumes from. It is opened, and thereby checked, before there is a trainer to load it,
// so files are read only once.
struct ResumeSource {
  std::filesystem::path path;  // without a part's suffix; the same on all ranks
  // On rank 0; for a model on several ranks, on the first rank of each part. Null elsewhere.
  std::shared_ptr<const ArraySource> source;
};

// Opens `path`. Errors are thrown on all ranks. Collective; the communicator may be null.
ResumeSource open_to_resume(const std::filesystem::path& path, Communicator* communicator,
                            const ReplicaSet* replicas = nullptr);

// Opens the first undamaged state of a list that is not empty and is the same on all ranks. Each of
// the first `parts` ranks opens its own part, which may be on a disk that others do not see; parts
// of different saves are refused. `flag` gave the list. Collective; the communicator may be null.
ResumeSource open_first_intact(const SavedStateList& list, std::string_view flag, int parts,
                               Communicator* communicator);

}  // namespace tasuki
