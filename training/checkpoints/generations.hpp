// The generations in an output folder, which of them is the latest, and which remain.
//
//   result/checkpoints/iter_400, iter_600, ...    generation.hpp
//   result/latest    one line: "checkpoints/iter_600", or "snapshot_iter_600": what was saved, or
//                    resumed from, last
//   result/best      one line: the generation with the best value of --keep-best
//   result/abandoned    a line for each generation or snapshot that the run left behind when it
//                       went back to an earlier iteration; nothing continues from them unasked
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
inline constexpr const char* latest_name = "latest";
inline constexpr const char* best_generation_name = "best";
inline constexpr const char* abandoned_name = "abandoned";

// "iter_600" is {600, 1}; "iter_600-2" is {600, 2}, of a run that went back and came to the same
// iteration again.
struct GenerationName {
  std::int64_t iteration = 0;
  std::int64_t number = 1;

  std::string text() const;
  // Of a folder's name; nothing for other names.
  static std::optional<GenerationName> parse(std::string_view name);
  friend auto operator<=>(const GenerationName&, const GenerationName&) = default;
};

// The folder of a generation in an output folder.
std::filesystem::path generation_folder(const std::filesystem::path& out,
                                        const GenerationName& name);
// Those in an output folder, whether valid or not, the highest first.
std::vector<GenerationName> generations_in(const std::filesystem::path& out);
// The number that the next generation of this iteration gets.
std::int64_t next_number(const std::filesystem::path& out, std::int64_t iteration);

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
// What is abandoned: names like those in `latest`.
std::set<std::string> abandoned_in(const std::filesystem::path& out);
// Abandons those of `names` that are there, too: on another disk than the one where the run
// started.
void abandon(const std::filesystem::path& out, const std::set<std::string>& names);
// The iteration in the name of a generation or numbered snapshot; nothing for other names.
std::optional<std::int64_t> iteration_of(const std::filesystem::path& saved);

// The same for the file `best`; an empty path: there is no best one, and the file is removed.
void write_best(const std::filesystem::path& out, const std::filesystem::path& saved);
// The folder that it names; nothing if there is none.
std::optional<std::filesystem::path> best_generation(const std::filesystem::path& out);

// Removes all but the newest `keep` generations, at least one, and the best one. `saved` is the
// newest. What is abandoned or of a higher iteration does not count, and stays, as does what cannot
// be removed.
void remove_old_generations(const std::filesystem::path& out, const std::filesystem::path& saved,
                            int keep);

// The name under which a generation is written or removed.
std::filesystem::path unfinished_name(const std::filesystem::path& generation);
// Removes it, if it can; at no moment there is a part of it under its name.
void remove_generation(const std::filesystem::path& generation);
// What killed runs have left in checkpoints/: folders that are written or removed in part, and
// other temporary files.
std::vector<std::filesystem::path> unfinished_generations_in(const std::filesystem::path& out);
// Removes them. No process may be writing there.
void remove_unfinished_generations(const std::filesystem::path& out);

}  // namespace tasuki
