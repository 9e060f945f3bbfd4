#include "training/checkpoints/generations.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/own_file.hpp"
#include "core/temporary_name.hpp"
#include "training/checkpoints/manifest.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "iter_", snapshot_prefix = "snapshot_iter_";
constexpr const char* marker_name = ".tasuki";

// The number in `text` in its shortest form.
std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || text != std::to_string(number)) return std::nullopt;
  return number;
}

std::optional<std::int64_t> number_after(std::string_view start, std::string_view name) {
  if (!name.starts_with(start)) return std::nullopt;
  return number_in(name.substr(start.size()));
}

bool is_file_of_generation(const std::string& name) {
  const std::string whole = name_of_temporary(name).value_or(name);
  const bool is_of_arrays = whole.starts_with("state") || whole.starts_with("optimizer.");
  // Network file systems and desktops make the last two.
  return whole == manifest_name || (is_of_arrays && whole.ends_with(".npz")) ||
         whole == marker_name || whole.starts_with(".nfs") || whole == ".DS_Store";
}

// Whether a run has made the folder, and nobody has put anything else there.
bool is_of_run(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(fs::symlink_status(folder, ignored))) return false;
  const auto has_file = [&](const char* name) {
    return fs::is_regular_file(fs::symlink_status(folder / name, ignored));
  };
  if (!has_file(manifest_name) && !has_file(marker_name)) return false;
  try {
    return std::ranges::all_of(names_in(folder), is_file_of_generation);
  } catch (const Error&) {  // nobody knows what is there
    return false;
  }
}

// Its files, and then the folder. What says that the folder is a run's goes last, so that what a
// process leaves that is killed meanwhile is known as such.
void remove_folder(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> files;
  fs::directory_iterator each(folder, error);
  for (; !error && each != fs::directory_iterator(); each.increment(error))
    files.push_back(each->path());
  std::ranges::partition(files, [](const fs::path& file) {
    return file.filename() != manifest_name && file.filename() != marker_name;
  });
  files.push_back(folder);
  for (const fs::path& file : files)
    if (!error) fs::remove(file, error);
}

bool is_empty_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(fs::symlink_status(folder, ignored)) && fs::is_empty(folder, ignored);
}

}  // namespace

std::string GenerationName::text() const {
  return number == 1 ? fmt::format("{}{}", prefix, iteration)
                     : fmt::format("{}{}-{}", prefix, iteration, number);
}

std::optional<GenerationName> GenerationName::parse(std::string_view name) {
  GenerationName parsed;
  const auto dash = std::min(name.find('-'), name.size());
  const auto iteration = number_after(prefix, name.substr(0, dash));
  if (!iteration) return std::nullopt;
  parsed.iteration = *iteration;
  if (dash == name.size()) return parsed;
  const auto number = number_in(name.substr(dash + 1));
  if (!number || *number < 2) return std::nullopt;
  parsed.number = *number;
  return parsed;
}

fs::path generation_folder(const fs::path& out, const GenerationName& name) {
  return out / checkpoints_name / name.text();
}

std::vector<GenerationName> generations_in(const fs::path& out) {
  std::vector<GenerationName> found;
  for (const std::string& name : names_in(out / checkpoints_name))
    if (const auto generation = GenerationName::parse(name)) found.push_back(*generation);
  std::ranges::sort(found, std::greater());
  return found;
}

std::string name_in_folder(const fs::path& saved) {
  const std::string name = saved.filename().string();
  const bool is_generation =
      GenerationName::parse(name) && saved.parent_path().filename() == checkpoints_name;
  return is_generation ? fmt::format("{}/{}", checkpoints_name, name) : name;
}

std::int64_t next_number(const fs::path& out, std::int64_t iteration) {
  std::int64_t last = 0;
  for (const GenerationName& name : generations_in(out))
    if (name.iteration == iteration) last = std::max(last, name.number);
  return last + 1;
}

std::optional<std::int64_t> iteration_of_snapshot(std::string_view name) {
  return number_after(snapshot_prefix, name);
}

std::optional<std::int64_t> iteration_of(const fs::path& saved) {
  const std::string name = saved.filename().string();
  if (const auto generation = GenerationName::parse(name)) return generation->iteration;
  return iteration_of_snapshot(name);
}

fs::path make_unfinished(const fs::path& generation) {
  fs::path unfinished = temporary_name(generation);
  make_own_folder(unfinished);
  try {
    open_own_file(unfinished / marker_name, OwnFile::make);
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove(unfinished, ignored);
    throw;
  }
  return unfinished;
}

void unmark(const fs::path& unfinished) {
  std::error_code ignored;
  fs::remove(unfinished / marker_name, ignored);
}

void remove_generation(const fs::path& generation) {
  std::error_code error;
  if (!is_of_run(generation)) return;
  fs::path unfinished = generation;
  if (GenerationName::parse(generation.filename().string())) {
    unfinished = temporary_name(generation);
    fs::rename(generation, unfinished, error);
  }
  if (!error) remove_folder(unfinished, error);
}

std::vector<fs::path> unfinished_generations_in(const fs::path& out) {
  const fs::path checkpoints = out / checkpoints_name;
  std::vector<fs::path> found = leftovers_in(checkpoints);
  for (const std::string& name : names_in(checkpoints)) {
    if (!is_leftover(name) || !GenerationName::parse(*name_of_temporary(name))) continue;
    // Empty: the process was killed before it could write the marker.
    const fs::path folder = checkpoints / name;
    if (is_of_run(folder) || is_empty_folder(folder)) found.push_back(folder);
  }
  return found;
}

void remove_unfinished_generations(const fs::path& out) {
  std::error_code ignored;
  for (const fs::path& each : unfinished_generations_in(out))
    if (fs::is_directory(fs::symlink_status(each, ignored)))
      remove_folder(each, ignored);
    else
      fs::remove(each, ignored);
}

}  // namespace tasuki
