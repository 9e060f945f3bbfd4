// Finding and opening what runs have saved, to resume from or to take a model from: checkpoints
// (folders, checkpoint.hpp) and snapshots (files). A saved state is either of them.
//
// What is damaged is passed over where an older one can take its place, with a warning. What cannot
// be read for another reason (is_damage) is an error: it may be intact, and training would go back
// for nothing.
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
// All of them, the newest first: by iteration; of the same iteration first the one that `latest`
// names, then checkpoints by number, then the snapshot. Those that the run has abandoned come last,
// and snapshots of higher iterations than `latest` says. (A checkpoint of a higher iteration was
// complete when the run was killed before it could name it: what is abandoned is written down
// before a checkpoint gets its name, and `latest` afterwards; with snapshots `latest` comes first.)
// `suffix`: of snapshots of a part of a model.
std::vector<SavedState> saved_states_in(const std::filesystem::path& out,
                                        const std::string& suffix = "");

// Whether it is a checkpoint: a folder with a manifest, or with a checkpoint's name and place.
bool is_checkpoint(const std::filesystem::path& path);
// Follows the files `best` and `latest`: the checkpoint or snapshot that they name. Other paths
// stay as they are.
std::filesystem::path followed(const std::filesystem::path& path);
// The folder of the run that saved it.
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
// Those in an output folder: saved_states_in(), at last the snapshot_best of older versions. With
// several `parts` of a model, whose snapshots are files with the suffix .0, .1, ..., those of which
// the first part is there; paths are without the suffix.
SavedStateList list_saved_states(const std::filesystem::path& folder, int parts = 1);
// The same, at least one, or the one that `path` names; it may have the suffix of the first part,
// be a file in a checkpoint, which stands for all of it, or the file `best` or `latest`, which
// names another. A folder without any is an error, which begins with `flag` that named it, and so
// is a checkpoint that is not there: it says which ones are.
SavedStateList find_saved_states(const std::filesystem::path& path, std::string_view flag,
                                 int parts = 1);

// --- opening ---

// A checkpoint, if `path` is a folder, or a snapshot, of a part of the model the file with the
// suffix `part`.
std::unique_ptr<ArraySource> open_saved_state(const std::filesystem::path& path,
                                              const std::string& part = "");

// The same, or a model file, which need not be of Tasuki; `best` and `latest` are followed.
std::unique_ptr<ArraySource> open_weights(const std::filesystem::path& path,
                                          const std::string& part = "");

// All parts of a snapshot or checkpoint, or of the newest intact one in a folder; says so if that
// is not simply the newest. `flag` has named the path.
std::vector<std::unique_ptr<ArraySource>> open_newest_intact(const std::filesystem::path& path,
                                                             std::string_view flag, int parts = 1);

// What a run resumes from, opened and so checked before there is a trainer to load it, so that
// files are read once.
struct ResumeSource {
  std::filesystem::path path;  // without a part's suffix; the same on all ranks
  // On rank 0, of a model on several ranks on the first rank of each part; null on the others.
  std::shared_ptr<const ArraySource> source;
};

// This one. Errors are errors on all ranks. Collective; the communicator may be null.
ResumeSource open_to_resume(const std::filesystem::path& path, Communicator* communicator,
                            const ReplicaSet* replicas = nullptr);

// The first of the list, at least one and the same on all ranks, that is not damaged. Each of the
// first `parts` ranks opens its own part, which may be on a disk that others do not see; parts of
// different saves are refused. `flag` has named the list. Collective; the communicator may be null.
ResumeSource open_first_intact(const SavedStateList& list, std::string_view flag, int parts,
                               Communicator* communicator);

}  // namespace tasuki
