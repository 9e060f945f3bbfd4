// The course of a run through the states that it has saved: which one is the latest, and which were
// left behind when it went back to an earlier iteration.
//
//   result/latest       one line: "checkpoints/iter_600", or "snapshot_iter_600": what was saved,
//                       or resumed from, last
//   result/abandoned    a line for each generation or snapshot that the run left behind; nothing
//                       continues from them unasked
//
// Errors of kind io, or missing because it may not be read: what is there cannot be read. Nothing
// is taken for missing then. Of kind data: `latest` or `best` (retention.hpp) names what is not in
// its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tasuki {

inline constexpr const char* latest_name = "latest";
inline constexpr const char* abandoned_name = "abandoned";

// A snapshot or a generation in an output folder.
struct SavedState {
  std::filesystem::path path;  // without the suffix of a part
  std::int64_t iteration = 0;
  bool is_generation = false;
};
// All of them, the newest first: by iteration; of the same iteration first the one that `latest`
// names, then generations by number, then the snapshot. Those that the run has abandoned come last,
// and snapshots of higher iterations than `latest` says. (A generation of a higher iteration was
// complete when the run was killed before it could name it: what is abandoned is written down
// before a generation gets its name, and `latest` afterwards; with snapshots `latest` comes first.)
// `suffix`: of snapshots of a part of a model.
std::vector<SavedState> saved_states_in(const std::filesystem::path& out,
                                        const std::string& suffix = "");

// A run starts in `out`. If it goes on from a generation or numbered snapshot there, `latest` names
// that one, and what the run does not go on from is abandoned: all of higher iterations; if the
// origin was itself abandoned before, everything else. A folder in which nothing can be written is
// a warning. Calling it again with the same origin changes nothing.
void start_course(const std::filesystem::path& out, const std::filesystem::path& origin);
// Names `saved`, a generation or a snapshot in `out`, in the file `latest`. Several threads of the
// process that trains may save; those that finish late do not replace a name of a higher iteration.
// The first call of a run abandons what is there of higher iterations.
void write_latest(const std::filesystem::path& out, const std::filesystem::path& saved);
// Before the generation `saved` gets its name: abandons what the first write_latest() of a run
// would, and no longer an earlier generation of this name. So it counts from the moment on in which
// it has its name, also if the process is killed before write_latest().
void announce_generation(const std::filesystem::path& out, const std::filesystem::path& saved);
// What it names (in older folders: last_snapshot), relative to `out`; nothing if there is none.
std::optional<std::filesystem::path> read_latest(const std::filesystem::path& out);
// What the one line of a file like `latest` names, relative to its folder; nothing if there is no
// such file.
std::optional<std::filesystem::path> saved_state_in(const std::filesystem::path& file);
// What is abandoned: names like those in `latest`.
std::set<std::string> abandoned_in(const std::filesystem::path& out);
// Abandons those of `names` that are there, too: on another disk than the one where the run
// started.
void abandon(const std::filesystem::path& out, const std::set<std::string>& names);

}  // namespace tasuki
