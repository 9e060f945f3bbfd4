#include "saving/output_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/log.hpp"
#include "core/own_file.hpp"
#include "core/printable.hpp"
#include "core/temporary_name.hpp"
#include "saving/checkpoint.hpp"

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

bool is_file_of_checkpoint(const std::string& name) {
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
    return std::ranges::all_of(names_in(folder), is_file_of_checkpoint);
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
  std::partition(files.begin(), files.end(), [](const fs::path& file) {
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

std::string CheckpointName::text() const {
  return number == 1 ? fmt::format("{}{}", prefix, iteration)
                     : fmt::format("{}{}-{}", prefix, iteration, number);
}

std::optional<CheckpointName> CheckpointName::parse(std::string_view name) {
  CheckpointName parsed;
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

fs::path checkpoint_folder(const fs::path& out, const CheckpointName& name) {
  return out / checkpoints_name / name.text();
}

std::vector<CheckpointName> checkpoints_in(const fs::path& out) {
  std::vector<CheckpointName> found;
  for (const std::string& name : names_in(out / checkpoints_name))
    if (const auto checkpoint = CheckpointName::parse(name)) found.push_back(*checkpoint);
  std::ranges::sort(found, std::greater());
  return found;
}

std::string name_in_folder(const fs::path& saved) {
  const std::string name = saved.filename().string();
  const bool is_checkpoint =
      CheckpointName::parse(name) && saved.parent_path().filename() == checkpoints_name;
  return is_checkpoint ? fmt::format("{}/{}", checkpoints_name, name) : name;
}

std::int64_t next_number(const fs::path& out, std::int64_t iteration) {
  std::int64_t last = 0;
  for (const CheckpointName& name : checkpoints_in(out))
    if (name.iteration == iteration) last = std::max(last, name.number);
  return last + 1;
}

std::optional<std::int64_t> iteration_of_snapshot(std::string_view name) {
  return number_after(snapshot_prefix, name);
}

std::optional<std::int64_t> iteration_of(const fs::path& saved) {
  const std::string name = saved.filename().string();
  if (const auto checkpoint = CheckpointName::parse(name)) return checkpoint->iteration;
  return iteration_of_snapshot(name);
}

fs::path make_unfinished(const fs::path& checkpoint) {
  fs::path unfinished = temporary_name(checkpoint);
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

void remove_checkpoint(const fs::path& checkpoint) {
  std::error_code error;
  if (!is_of_run(checkpoint)) return;
  fs::path unfinished = checkpoint;
  if (CheckpointName::parse(checkpoint.filename().string())) {
    unfinished = temporary_name(checkpoint);
    fs::rename(checkpoint, unfinished, error);
  }
  if (!error) remove_folder(unfinished, error);
}

std::vector<fs::path> unfinished_checkpoints_in(const fs::path& out) {
  const fs::path checkpoints = out / checkpoints_name;
  std::vector<fs::path> found = leftovers_in(checkpoints);
  for (const std::string& name : names_in(checkpoints)) {
    if (!is_leftover(name) || !CheckpointName::parse(*name_of_temporary(name))) continue;
    // Empty: the process was killed before it could write the marker.
    const fs::path folder = checkpoints / name;
    if (is_of_run(folder) || is_empty_folder(folder)) found.push_back(folder);
  }
  return found;
}

void remove_unfinished_checkpoints(const fs::path& out) {
  std::error_code ignored;
  for (const fs::path& each : unfinished_checkpoints_in(out))
    if (fs::is_directory(fs::symlink_status(each, ignored)))
      remove_folder(each, ignored);
    else
      fs::remove(each, ignored);
}

namespace {

// Of older versions, in place of `latest`.
constexpr const char* former_latest_name = "last_snapshot";

// What is saved in a folder, by its name in the files there, with its iteration. Parts of one
// snapshot have one name.
std::map<std::string, std::int64_t> iterations_of_saved(const fs::path& out) {
  std::map<std::string, std::int64_t> found;
  for (const CheckpointName& name : checkpoints_in(out))
    found[name_in_folder(checkpoint_folder(out, name))] = name.iteration;
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

void record_start(const fs::path& out, const fs::path& origin) {
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

void announce_checkpoint(const fs::path& out, const fs::path& saved) {
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
  const bool is_checkpoint =
      *line == fmt::format("{}/{}", checkpoints_name, name) && CheckpointName::parse(name);
  const bool is_file = *line == name && name != "." && name != "..";
  if (!is_checkpoint && !is_file)
    fail(ErrorKind::data,
         "{}: expected the name of a checkpoint or a snapshot in this folder, found '{}'; write "
         "one there, or remove the file",
         file.string(), printable(*line, most_shown));
  return named;
}

}  // namespace tasuki
