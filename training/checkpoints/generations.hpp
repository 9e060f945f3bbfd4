// The generations in an output folder, which of them is the latest, and which remain.
//
//   result/checkpoints/iter_400, iter_600, ...    generation.hpp
//   result/latest    one line: "checkpoints/iter_600", or "snapshot_iter_600": what was saved, or
//                    resumed from, last
//   result/best      one line: the generation with the best value of --keep-best
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tasuki {

inline constexpr const char* checkpoints_name = "checkpoints";
inline constexpr const char* latest_name = "latest";
inline constexpr const char* best_generation_name = "best";

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
// All of them, the newest first: by iteration, where two have the same one that which `latest`
// names, then generations by number, then the snapshot. Those of higher iterations than `latest`
// says were left behind by a run that went back; they come last. `suffix`: of snapshots of a part
// of a model.
std::vector<SavedState> saved_states_in(const std::filesystem::path& out,
                                        const std::string& suffix = "");

// Names `saved`, a generation or a snapshot in `out`, in the file `latest`.
void write_latest(const std::filesystem::path& out, const std::filesystem::path& saved);
// What it names (in older folders: last_snapshot), relative to `out`; nothing if there is none.
std::optional<std::filesystem::path> read_latest(const std::filesystem::path& out);
// The iteration in the name of a generation or numbered snapshot; nothing for other names.
std::optional<std::int64_t> iteration_of(const std::filesystem::path& saved);

// The same for the file `best`.
void write_best(const std::filesystem::path& out, const std::filesystem::path& saved);
// The folder that it names; nothing if there is none.
std::optional<std::filesystem::path> best_generation(const std::filesystem::path& out);

// Removes all but the newest `keep` generations, at least one, and the best one. `saved` is the
// newest; those of higher iterations belong to another course of the run and stay. What cannot be
// removed stays, too.
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
