#include "training/output_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/file_lock.hpp"
#include "core/log.hpp"
#include "core/system_error.hpp"
#include "saving/event_file.hpp"
#include "saving/output_layout.hpp"
#include "saving/retention.hpp"
#include "training/step_hashes.hpp"

namespace tasuki {
namespace fs = std::filesystem;
namespace {

constexpr const char* lock_file = ".lock";
constexpr std::array<std::string_view, 9> results = {
    "log",           "about.json", "step_times.json", "finished.json", best_snapshot_name,
    "last_snapshot", latest_name,  best_name,         abandoned_name};

std::optional<FileLock> try_lock_folder(const fs::path& folder) {
  return FileLock::try_lock(folder / lock_file,
                            fmt::format("pid {} on {}\n", getpid(), host_name()));
}

bool are_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return '0' <= c && c <= '9'; });
}

// Whether a run has written a file of this name; snapshots of a divided model are files for each
// part, with the suffix .0, .1, ...
bool is_result(std::string_view name) {
  if (std::ranges::find(results, name) != results.end()) return true;
  if (const auto dot = name.rfind('.'); dot != name.npos && are_digits(name.substr(dot + 1)))
    name = name.substr(0, dot);
  constexpr std::string_view numbered = "snapshot_iter_";
  return name == best_snapshot_name || name == averaged_weights_name ||
         (name.starts_with(numbered) && are_digits(name.substr(numbered.size())));
}

std::vector<fs::path> results_in(const fs::path& folder) {
  std::vector<fs::path> found;
  try {
    for (const std::string& name : names_in(folder))
      if (is_result(name) || (name == hashes_name && is_hash_file(folder / name)))
        found.push_back(folder / name);
    for (const fs::path& file : event_files_in(folder / tensorboard_name)) found.push_back(file);
    for (const CheckpointName& name : checkpoints_in(folder))
      found.push_back(checkpoint_folder(folder, name));
  } catch (const SystemError& error) {
    throw SystemError(ErrorKind::cannot_write, error.cause(), error.what());
  }
  return found;
}

// Checkpoints would be written, and old ones removed, in another folder.
void refuse_linked_checkpoints(const fs::path& folder) {
  std::error_code ignored;
  const fs::path checkpoints = folder / checkpoints_name;
  if (fs::is_symlink(fs::symlink_status(checkpoints, ignored)))
    fail(ErrorKind::cannot_write,
         "{} is a link; remove it, and give an output folder on the disk that is to have the "
         "checkpoints (which may itself be a link)",
         checkpoints.string());
}

void remove_unfinished(const fs::path& folder) {
  remove_leftovers(folder);
  remove_unfinished_checkpoints(folder);
}

// For a folder with results, if no job is at work there. Without leftovers nothing is locked,
// because a job that is about to take the folder would be refused.
void clean_up(const fs::path& folder) {
  if (leftovers_in(folder).empty() && unfinished_checkpoints_in(folder).empty()) return;
  try {
    const auto lock = try_lock_folder(folder);
    if (lock && lock->what_is_missing().empty()) remove_unfinished(folder);
  } catch (const Error& error) {
    log_verbose("{} was not removed: {}", folder.string(), error.what());
  }
}

}  // namespace

FolderChoice choose_folder(OldResults old, bool in_use, bool has_results) {
  if (old == OldResults::join) return in_use ? FolderChoice::refuse : FolderChoice::take;
  return in_use || has_results ? FolderChoice::try_next : FolderChoice::take;
}

fs::path numbered_folder(const fs::path& folder, int number) {
  if (number == 1) return folder;
  fs::path named = folder.lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // "result/"
  if (const fs::path name = named.filename(); name.empty() || name == "." || name == "..")
    named = fs::weakly_canonical(folder);
  named += fmt::format("-{}", number);
  return named;
}

bool has_results(const fs::path& folder) {
  return !results_in(folder).empty();
}

void remove_results(const fs::path& folder) {
  for (const fs::path& result : results_in(folder)) {
    std::error_code error;
    if (CheckpointName::parse(result.filename().string()))
      remove_checkpoint(result);
    else
      fs::remove(result, error);
    if (error) fail_because(error, ErrorKind::cannot_write, "cannot remove {}", result.string());
  }
  remove_unfinished_checkpoints(folder);
  std::error_code not_empty;
  fs::remove(folder / checkpoints_name, not_empty);
}

// The lock, and the folder's identity: while the lock file is open, no other folder has its inode
// number.
struct OutputFolder::Hold {
  FileLock lock;
  int descriptor;
  struct stat held {};

  Hold(FileLock taken, const fs::path& folder)
      : lock(std::move(taken)), descriptor(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    fstat(descriptor, &held);
  }
  ~Hold() {
    if (descriptor >= 0) close(descriptor);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  bool is_at(const fs::path& path) const {
    struct stat found {};
    return stat(path.c_str(), &found) == 0 && held.st_dev == found.st_dev &&
           held.st_ino == found.st_ino;
  }
  bool is_lock_at(const fs::path& path) const { return lock.is_at(path / lock_file); }
};

OutputFolder::OutputFolder(const fs::path& path)
    : is_relative_(path.is_relative()), base_(present_folder()), path_(base_ / path) {}

OutputFolder::~OutputFolder() = default;

fs::path OutputFolder::name_of(const fs::path& file) const {
  const bool is_inside = file.string().starts_with(path_.string());
  return is_relative_ && is_inside && !base_.empty() ? file.lexically_relative(base_) : file;
}

fs::path OutputFolder::find(const fs::path& wanted, OldResults old) {
  int number = 1;
  while (choose_folder(old, false, has_results(numbered_folder(wanted, number))) !=
         FolderChoice::take)
    ++number;
  return numbered_folder(wanted, number);
}

bool OutputFolder::is_in_use(const fs::path& folder) {
  return FileLock::is_held(folder / lock_file);
}

std::string OutputFolder::holder(const fs::path& folder) {
  return holder_of_lock(folder / lock_file);
}

void OutputFolder::take(OldResults old) {
  const fs::path wanted = path_;
  for (int number = 1;; ++number) {
    const fs::path folder = numbered_folder(wanted, number);
    // A folder that is passed over need not be writable.
    if (choose_folder(old, false, has_results(folder)) == FolderChoice::try_next) {
      clean_up(folder);
      continue;
    }
    make_output_folder(folder);
    refuse_linked_checkpoints(folder);
    auto lock = try_lock_folder(folder);
    // Another job may have come and gone between the first check and the lock.
    switch (choose_folder(old, !lock, has_results(folder))) {
      case FolderChoice::try_next:
        continue;
      case FolderChoice::refuse:
        fail(ErrorKind::cannot_write,
             "output folder {} is in use by another job ({}); wait until it ends, or choose "
             "another folder",
             folder.string(), holder(folder));
      case FolderChoice::take:
        break;
    }
    if (!lock->what_is_missing().empty())
      log_warning("{} cannot be locked ({}); make sure that no other job writes there",
                  folder.string(), lock->what_is_missing());
    else
      remove_unfinished(folder);
    hold_ = std::make_unique<Hold>(std::move(*lock), folder);
    path_ = folder;
    return;
  }
}

void OutputFolder::release() {
  hold_.reset();
}

void OutputFolder::write(const std::string& name, std::string contents) {
  write_file(path_ / name, contents);
  written_[name] = std::move(contents);
}

void OutputFolder::restore() {
  if (!hold_) return;
  const fs::path before = path_;
  const bool is_there = hold_->is_at(path_);
  if (is_there && hold_->is_lock_at(path_)) return;
  if (is_there) {
    if (auto lock = try_lock_folder(path_)) {
      hold_ = std::make_unique<Hold>(std::move(*lock), path_);
      log_warning(
          "the lock of output folder {} was removed while the run writes to it; locked again",
          path_.string());
      return;
    }
  }
  take(OldResults::leave);
  for (const auto& [name, contents] : written_) write_file(path_ / name, contents);
  if (is_there)
    log_warning(
        "the lock of output folder {} was removed while the run writes to it, and another "
        "job has taken it ({}); the run continues in {}",
        before.string(), holder(before), path_.string());
  else
    log_warning(
        "output folder {} was removed while the run writes to it; the run continues in {}{}",
        before.string(), path_.string(), path_ == before ? ", made again" : "");
}

}  // namespace tasuki
