// The generations in an output folder: their names, and how they go away.
//
//   result/checkpoints/iter_400, iter_600, ...    generation.hpp
//   result/checkpoints/iter_800.tasuki-*.tmp      written or removed in part, by the process in
//                                                 its name (core/temporary_name.hpp)
//
// Folders of these names that somebody else has made are never removed: a run's have a manifest,
// or while they are written a marker, and no files but those of a generation.
//
// course.hpp: which of them is the latest; retention.hpp: which remain. Errors of kind io: a folder
// is there and cannot be read.
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
// "checkpoints/iter_600" of a generation's folder; of a snapshot, its file's name.
std::string name_in_folder(const std::filesystem::path& saved);
// The iteration in the name of a generation or numbered snapshot; nothing for other names.
std::optional<std::int64_t> iteration_of(const std::filesystem::path& saved);
// The same for names of numbered snapshots alone.
std::optional<std::int64_t> iteration_of_snapshot(std::string_view name);
// The number that the next generation of this iteration gets.
std::int64_t next_number(const std::filesystem::path& out, std::int64_t iteration);

// Makes a folder for writing a generation, with a temporary name and the marker.
std::filesystem::path make_unfinished(const std::filesystem::path& generation);
// Removes the marker, when there is a manifest.
void unmark(const std::filesystem::path& unfinished);
// Removes a generation, or what make_unfinished() has made, if it can; at no moment there is a part
// of it under its name.
void remove_generation(const std::filesystem::path& generation);
// What runs on this host that were killed have left in checkpoints/: folders that are written or
// removed in part, and other temporary files.
std::vector<std::filesystem::path> unfinished_generations_in(const std::filesystem::path& out);
// Removes them. No process may be writing there.
void remove_unfinished_generations(const std::filesystem::path& out);

}  // namespace tasuki
