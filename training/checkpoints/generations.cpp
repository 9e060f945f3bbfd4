#include "tasuki/training/checkpoints/generations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <mutex>
#include <system_error>
#include <tuple>
#include <utility>

#include "tasuki/core/error.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/core/log.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "iter_", snapshot_prefix = "snapshot_iter_";
constexpr std::string_view unfinished_suffix = ".tmp";
// Of older versions, in place of `latest`.
constexpr const char* former_latest_name = "last_snapshot";

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

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    names.push_back(entry.path().filename().string());
  return names;
}

// The first line of a file; nothing if there is none.
std::optional<fs::path> line_in(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line) || line.empty()) return std::nullopt;
  return line;
}

// "checkpoints/iter_600" or "snapshot_iter_600".
std::string name_in_folder(const fs::path& saved) {
  const std::string name = saved.filename().string();
  const bool is_generation =
      GenerationName::parse(name) && saved.parent_path().filename() == checkpoints_name;
  return is_generation ? fmt::format("{}/{}", checkpoints_name, name) : name;
}

// What is saved in a folder, by its name in the files there, with its iteration. Parts of one
// snapshot have one name.
std::map<std::string, std::int64_t> iterations_of_saved(const fs::path& out) {
  std::map<std::string, std::int64_t> found;
  for (const GenerationName& name : generations_in(out))
    found[name_in_folder(generation_folder(out, name))] = name.iteration;
  for (const std::string& name : names_in(out)) {
    const std::string whole = name.substr(0, name.find('.'));
    if (const auto iteration = number_after(snapshot_prefix, whole)) found[whole] = *iteration;
  }
  return found;
}

// Writes the file `abandoned` with those of `names` that are there.
void write_abandoned(const fs::path& out, const std::set<std::string>& names) {
  const auto saved = iterations_of_saved(out);
  std::string text;
  for (const std::string& name : names)
    if (saved.contains(name)) text += name + '\n';
  std::error_code ignored;
  if (!text.empty())
    write_file(out / abandoned_name, text);
  else
    fs::remove(out / abandoned_name, ignored);
}

// The run is at `own`, of that iteration. `starts`: it may have gone back to it.
void update_abandoned(const fs::path& out, const std::string& own, std::int64_t iteration,
                      bool starts) {
  const std::set<std::string> before = abandoned_in(out);
  std::set<std::string> names = before;
  const bool was_abandoned = names.erase(own) > 0;
  if (starts)
    for (const auto& [name, other] : iterations_of_saved(out))
      if (name != own && (was_abandoned || other > iteration)) names.insert(name);
  if (names != before) write_abandoned(out, names);
}

// Which iteration this process has named in `latest` of each folder since a run started there.
class Named {
 public:
  // The one object, and its lock.
  static std::pair<Named&, std::unique_lock<std::mutex>> lock() {
    static Named named;
    return {named, std::unique_lock(named.mutex_)};
  }
  std::optional<std::int64_t>& in(const fs::path& out) {
    std::error_code ignored;
    return iterations_[fs::weakly_canonical(out, ignored).string()];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::optional<std::int64_t>> iterations_;
};

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

std::int64_t next_number(const fs::path& out, std::int64_t iteration) {
  std::int64_t last = 0;
  for (const GenerationName& name : generations_in(out))
    if (name.iteration == iteration) last = std::max(last, name.number);
  return last + 1;
}

std::optional<std::int64_t> iteration_of(const fs::path& saved) {
  const std::string name = saved.filename().string();
  if (const auto generation = GenerationName::parse(name)) return generation->iteration;
  return number_after(snapshot_prefix, name);
}

std::vector<SavedState> saved_states_in(const fs::path& out, const std::string& suffix) {
  std::vector<SavedState> found;
  for (const GenerationName& name : generations_in(out))
    found.push_back({generation_folder(out, name), name.iteration, true});
  for (const std::string& name : names_in(out)) {
    if (!name.ends_with(suffix)) continue;
    const std::string whole = name.substr(0, name.size() - suffix.size());
    if (const auto iteration = number_after(snapshot_prefix, whole))
      found.push_back({out / whole, *iteration, false});
  }
  const fs::path latest = read_latest(out).value_or("");
  const std::int64_t last = iteration_of(latest).value_or(INT64_MAX);
  const std::set<std::string> abandoned = abandoned_in(out);
  // Stable: generations are already in their order, and before snapshots.
  std::ranges::stable_sort(found, std::greater(), [&](const SavedState& each) {
    const bool is_own = (each.is_generation || each.iteration <= last) &&
                        !abandoned.contains(name_in_folder(each.path));
    return std::tuple(is_own, each.iteration, each.path.lexically_relative(out) == latest);
  });
  return found;
}

void start_course(const fs::path& out, const fs::path& origin) {
  {
    auto [named, lock] = Named::lock();
    named.in(out).reset();
  }
  if (!iteration_of(origin)) return;
  const fs::path place = out / name_in_folder(origin);
  std::error_code ignored;
  if (!fs::equivalent(place.parent_path(), fs::absolute(origin).parent_path(), ignored)) return;
  try {
    write_latest(out, origin);
  } catch (const Error& error) {
    log_warning("{}; training continues", error.what());
  }
}

void write_latest(const fs::path& out, const fs::path& saved) {
  auto [named, lock] = Named::lock();
  std::optional<std::int64_t>& last = named.in(out);
  const std::string name = name_in_folder(saved);
  const auto iteration = iteration_of(saved);
  if (iteration && last && *iteration < *last) return;
  if (iteration) update_abandoned(out, name, *iteration, !last);
  write_file(out / latest_name, name + "\n");
  if (iteration) last = iteration;
}

void announce_generation(const fs::path& out, const fs::path& saved) {
  auto [named, lock] = Named::lock();
  update_abandoned(out, name_in_folder(saved), iteration_of(saved).value(), !named.in(out));
}

std::set<std::string> abandoned_in(const fs::path& out) {
  std::set<std::string> names;
  std::ifstream in(out / abandoned_name);
  for (std::string line; std::getline(in, line);) names.insert(line);
  return names;
}

void abandon(const fs::path& out, const std::set<std::string>& names) {
  auto [named, lock] = Named::lock();
  const std::set<std::string> before = abandoned_in(out);
  std::set<std::string> all = before;
  all.insert(names.begin(), names.end());
  if (all != before) write_abandoned(out, all);
}

std::optional<fs::path> read_latest(const fs::path& out) {
  if (auto latest = line_in(out / latest_name)) return latest;
  return line_in(out / former_latest_name);
}

void write_best(const fs::path& out, const fs::path& saved) {
  if (!saved.empty()) return write_file(out / best_generation_name, name_in_folder(saved) + "\n");
  std::error_code error;
  fs::remove(out / best_generation_name, error);
  if (error)
    fail(ErrorKind::cannot_write, "cannot remove {}: {}", (out / best_generation_name).string(),
         error.message());
}

std::optional<fs::path> best_generation(const fs::path& out) {
  const auto best = line_in(out / best_generation_name);
  const auto name = best ? GenerationName::parse(best->filename().string()) : std::nullopt;
  if (!name) return std::nullopt;
  fs::path folder = generation_folder(out, *name);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return std::nullopt;
  return folder;
}

void remove_old_generations(const fs::path& out, const fs::path& saved, int keep) {
  const auto newest = GenerationName::parse(saved.filename().string());
  if (!newest) return;
  const auto best = best_generation(out);
  const std::set<std::string> abandoned = abandoned_in(out);
  int kept = 0;
  for (const GenerationName& name : generations_in(out)) {
    const fs::path folder = generation_folder(out, name);
    if (name.iteration > newest->iteration || abandoned.contains(name_in_folder(folder))) continue;
    if (kept++ < std::max(keep, 1)) continue;
    if (folder != best) remove_generation(folder);
  }
}

fs::path unfinished_name(const fs::path& generation) {
  fs::path name = generation;
  name += unfinished_suffix;
  return name;
}

void remove_generation(const fs::path& generation) {
  std::error_code ignored;
  fs::path unfinished = generation;
  if (GenerationName::parse(generation.filename().string())) {
    unfinished = unfinished_name(generation);
    fs::remove_all(unfinished, ignored);
    fs::rename(generation, unfinished, ignored);
  }
  fs::remove_all(unfinished, ignored);
}

std::vector<fs::path> unfinished_generations_in(const fs::path& out) {
  const fs::path checkpoints = out / checkpoints_name;
  std::vector<fs::path> found = leftovers_in(checkpoints);
  for (std::string name : names_in(checkpoints)) {
    if (!name.ends_with(unfinished_suffix)) continue;
    name.resize(name.size() - unfinished_suffix.size());
    if (GenerationName::parse(name)) found.push_back(unfinished_name(checkpoints / name));
  }
  return found;
}

void remove_unfinished_generations(const fs::path& out) {
  std::error_code ignored;
  for (const fs::path& each : unfinished_generations_in(out)) fs::remove_all(each, ignored);
}

}  // namespace tasuki
