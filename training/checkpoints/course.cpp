#include "training/checkpoints/course.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "training/checkpoints/generations.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

// Of older versions, in place of `latest`.
constexpr const char* former_latest_name = "last_snapshot";

// What is saved in a folder, by its name in the files there, with its iteration. Parts of one
// snapshot have one name.
std::map<std::string, std::int64_t> iterations_of_saved(const fs::path& out) {
  std::map<std::string, std::int64_t> found;
  for (const GenerationName& name : generations_in(out))
    found[name_in_folder(generation_folder(out, name))] = name.iteration;
  for (const std::string& name : names_in(out)) {
    const std::string whole = name.substr(0, name.find('.'));
    if (const auto iteration = iteration_of_snapshot(whole)) found[whole] = *iteration;
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

std::vector<SavedState> saved_states_in(const fs::path& out, const std::string& suffix) {
  std::vector<SavedState> found;
  for (const GenerationName& name : generations_in(out))
    found.push_back({generation_folder(out, name), name.iteration, true});
  for (const std::string& name : names_in(out)) {
    if (!name.ends_with(suffix)) continue;
    const std::string whole = name.substr(0, name.size() - suffix.size());
    if (const auto iteration = iteration_of_snapshot(whole))
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
  std::istringstream in(read_file_if_there(out / abandoned_name).value_or(""));
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
  if (auto latest = saved_state_in(out / latest_name)) return latest;
  return saved_state_in(out / former_latest_name);
}

std::optional<fs::path> saved_state_in(const fs::path& file) {
  constexpr std::size_t most_shown = 100;
  const auto line = first_line_in(file);
  if (!line) return std::nullopt;
  fs::path named = *line;
  const std::string name = named.filename().string();
  const bool is_generation =
      *line == fmt::format("{}/{}", checkpoints_name, name) && GenerationName::parse(name);
  const bool is_file = *line == name && name != "." && name != "..";
  if (!is_generation && !is_file)
    fail(ErrorKind::data,
         "{}: expected the name of a checkpoint or a snapshot in this folder, found '{}'; write "
         "one there, or remove the file",
         file.string(), printable(*line, most_shown));
  return named;
}

}  // namespace tasuki
