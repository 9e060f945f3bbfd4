#include "core/file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/error.hpp"
#include "core/long_call.hpp"
#include "core/named_file.hpp"
#include "core/own_file.hpp"
#include "core/system_error.hpp"
#include "core/temporary_name.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

// Without fsync of folders the rename is as safe as it can be; folders that are writable but not
// readable cannot be opened for fsync.
bool is_no_failure_of_folder(const std::error_code& cause) {
  return cause == std::errc::invalid_argument || cause == std::errc::permission_denied;
}

void sync_to_disk(const fs::path& path, int flags) {
  const Descriptor file(::open(path.c_str(), flags | O_CLOEXEC));
  if (file && ::fsync(file.get()) == 0) return;
  const std::error_code cause = last_system_error();
  if ((flags & O_DIRECTORY) == 0 || !is_no_failure_of_folder(cause))
    fail_because(cause, ErrorKind::cannot_write, "cannot sync {}", final_path(path).string());
}

void check_writable(const fs::path& folder) {
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    fail_because(last_system_error(), ErrorKind::cannot_write, "cannot write in output folder {}",
                 folder.string());
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

// Calls `write` with the number of each file and a temporary name; then renames them.
void replace_files(std::span<const fs::path> paths,
                   const std::function<void(std::size_t i, const fs::path& temporary)>& write) {
  std::vector<fs::path> temporaries;
  const LongCall writing;  // the system may write most of the data only in a sync
  std::error_code error;
  const auto check = [&](const fs::path& path) {
    if (error) fail_because(error, ErrorKind::cannot_write, "cannot write {}", path.string());
  };
  try {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      // A rename would fail, perhaps after another one.
      const bool is_in_the_way = fs::is_directory(fs::symlink_status(paths[i], error));
      error = is_in_the_way ? std::make_error_code(std::errc::is_a_directory) : std::error_code();
      check(paths[i]);
      temporaries.push_back(temporary_name(paths[i]));
      write(i, temporaries[i]);
      sync_file(temporaries[i]);
    }
    for (std::size_t i = 0; i < paths.size(); ++i) {
      fs::rename(temporaries[i], paths[i], error);
      check(paths[i]);
      sync_folder(parent_of(paths[i]));
    }
  } catch (...) {
    for (const fs::path& temporary : temporaries) fs::remove(temporary, error);
    throw;
  }
}

std::optional<std::string> read_if_there(const fs::path& path, std::size_t most) {
  try {
    return read_own_file(path, most);
  } catch (const Error& error) {
    if (!is_absence(error)) throw;
    return std::nullopt;
  }
}

[[noreturn]] void refuse_output_folder(const fs::path& folder, const std::error_code& cause) {
  if (cause)
    fail_because(cause, ErrorKind::cannot_write, "cannot make output folder {}", folder.string());
  fail(ErrorKind::cannot_write, "cannot make output folder {}: a file of that name exists",
       folder.string());
}

// The missing folders of the path, innermost first.
std::vector<fs::path> missing_folders(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path each = fs::absolute(folder);
       each.has_relative_path() && !fs::exists(each, error) && !error; each = each.parent_path())
    if (each.has_filename()) missing.push_back(each);
  if (error) refuse_output_folder(folder, error);
  return missing;
}

}  // namespace

ErrorKind kind_of_absence(const std::error_code& cause) {
  const bool is_forbidden =
      cause == std::errc::permission_denied || cause == std::errc::operation_not_permitted;
  return is_absence(cause) || is_forbidden ? ErrorKind::missing : ErrorKind::io;
}

std::string read_file(const fs::path& path) {
  return read_up_to(path, std::size_t{1} << 30);
}

std::optional<std::string> read_file_if_there(const fs::path& path) {
  return read_if_there(path, own_file_limit);
}

std::optional<std::string> first_line_in(const fs::path& path) {
  constexpr std::size_t most = 1 << 16;
  const std::string text = read_if_there(path, most).value_or("");
  std::string line = text.substr(0, text.find('\n'));
  if (line.empty()) return std::nullopt;
  return line;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator each(folder, error);
  for (; !error && each != fs::directory_iterator(); each.increment(error))
    names.push_back(each->path().filename().string());
  if (error && !is_absence(error))
    fail_because(error, kind_of_absence(error), "cannot read {}", folder.string());
  return names;
}

fs::path present_folder() {
  std::error_code removed;
  return fs::current_path(removed);
}

void replace_file(const fs::path& path,
                  const std::function<void(const fs::path& temporary)>& write) {
  replace_files({&path, 1}, [&](std::size_t, const fs::path& temporary) { write(temporary); });
}

void write_file(const fs::path& path, std::string_view contents) {
  replace_file(path, [&](const fs::path& temporary) {
    write_to(open_own_file(temporary, OwnFile::make), contents, path);
  });
}

void write_files(std::span<const FileContents> files) {
  std::vector<fs::path> paths;
  for (const FileContents& file : files) paths.push_back(file.path);
  replace_files(paths, [&](std::size_t i, const fs::path& temporary) {
    write_to(open_own_file(temporary, OwnFile::make), files[i].contents, paths[i]);
  });
}

void sync_file(const fs::path& file) {
  sync_to_disk(file, O_RDONLY);
}

void sync_folder(const fs::path& folder) {
  sync_to_disk(folder, O_RDONLY | O_DIRECTORY);
}

std::vector<fs::path> leftovers_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(folder, ignored))
    if (is_leftover(file.path().filename().string()) &&
        fs::is_regular_file(file.symlink_status(ignored)))
      found.push_back(file.path());
  return found;
}

void remove_leftovers(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& file : leftovers_in(folder)) fs::remove(file, ignored);
}

void make_output_folder(const fs::path& folder) {
  std::error_code error;
  const std::vector<fs::path> missing = missing_folders(folder);
  for (auto each = missing.rbegin(); each != missing.rend(); ++each) {
    // Another process may create it at the same time.
    if (fs::create_directory(*each, error)) sync_folder(parent_of(*each));
    if (error) refuse_output_folder(folder, error);
  }
  if (!fs::is_directory(folder, error)) refuse_output_folder(folder, error);
  check_writable(folder);
}

void check_output_folder(const fs::path& folder) {
  const std::vector<fs::path> missing = missing_folders(folder);
  std::error_code error;
  if (missing.empty()) {
    if (!fs::is_directory(folder, error)) refuse_output_folder(folder, error);
    return check_writable(folder);
  }
  // Creates the first missing folder and removes it again, because permissions alone do not show
  // whether that is possible.
  if (!fs::create_directory(missing.back(), error)) refuse_output_folder(folder, error);
  check_writable(missing.back());
  fs::remove(missing.back(), error);
}

}  // namespace tasuki
