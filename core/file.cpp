#include "tasuki/core/file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <system_error>

#include "tasuki/core/error.hpp"
#include "tasuki/core/long_call.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

void sync_to_disk(const fs::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  // Some file systems refuse to sync a folder; the rename is then as safe as it can be there.
  if (!synced && !(error == EINVAL && (flags & O_DIRECTORY) != 0))
    fail(ErrorKind::cannot_write, "cannot sync {}: {}", path.string(), std::strerror(error));
}

void check_writable(const fs::path& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail(ErrorKind::cannot_write, "cannot write in output folder {}: {}", folder.string(),
         std::strerror(errno));
}

}  // namespace

ErrorKind kind_of_absence(const std::error_code& error) {
  const bool is_absent =
      error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory ||
      error == std::errc::is_a_directory || error == std::errc::filename_too_long ||
      error == std::errc::too_many_symbolic_link_levels;
  return is_absent ? ErrorKind::missing : ErrorKind::io;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    const std::error_code error(errno, std::generic_category());
    fail(kind_of_absence(error), "cannot read {}: {}", path.string(), error.message());
  }
  try {
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  } catch (const std::ios_base::failure&) {  // thrown by iterators for a folder or a broken disk
    fail(ErrorKind::io, "reading {} failed: {}", path.string(), std::strerror(errno));
  }
}

std::optional<std::string> read_file_if_there(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::missing) throw;
    return std::nullopt;
  }
}

std::optional<std::string> first_line_in(const fs::path& path) {
  std::istringstream in(read_file_if_there(path).value_or(""));
  std::string line;
  if (!std::getline(in, line) || line.empty()) return std::nullopt;
  return line;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator each(folder, error);
  for (; !error && each != fs::directory_iterator(); each.increment(error))
    names.push_back(each->path().filename().string());
  if (error && kind_of_absence(error) != ErrorKind::missing)
    fail(ErrorKind::io, "cannot read {}: {}", folder.string(), error.message());
  return names;
}

void replace_file(const fs::path& path,
                  const std::function<void(const fs::path& temporary)>& write) {
  // Threads may replace one file at the same time, each with a temporary file of its own.
  static std::atomic<unsigned> calls = 0;
  fs::path temporary = path;
  temporary += fmt::format(".{}.{}.tmp", ++calls, ::getpid());
  const LongCall writing;  // the system may write most of the data only now
  try {
    write(temporary);
    sync_file(temporary);
    std::error_code error;
    fs::rename(temporary, path, error);
    if (error)
      fail(ErrorKind::cannot_write, "cannot rename {} to {}: {}", temporary.string(), path.string(),
           error.message());
    const fs::path folder = path.parent_path();
    sync_folder(folder.empty() ? fs::path(".") : folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

void write_file(const fs::path& path, std::string_view contents) {
  replace_file(path, [&](const fs::path& temporary) {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
    out.close();
    if (!out)
      fail(ErrorKind::cannot_write, "cannot write {} bytes to {}: {}", contents.size(),
           path.string(), std::strerror(errno));
  });
}

void sync_file(const fs::path& file) {
  sync_to_disk(file, O_RDONLY);
}

void sync_folder(const fs::path& folder) {
  sync_to_disk(folder, O_RDONLY | O_DIRECTORY);
}

std::vector<fs::path> leftovers_in(const fs::path& folder) {
  // Named as by replace_file, plus the suffix that libzip adds while it writes.
  static const std::regex leftover(R"(.*\.[0-9]+\.tmp(\.[A-Za-z0-9]{6})?)");
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(folder, ignored))
    if (std::regex_match(file.path().filename().string(), leftover)) found.push_back(file.path());
  return found;
}

void remove_leftovers(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& file : leftovers_in(folder)) fs::remove(file, ignored);
}

void make_output_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder))
    fail(ErrorKind::cannot_write, "cannot make output folder {}: {}", folder.string(),
         error ? error.message() : "a file of that name exists");
  check_writable(folder);
}

void check_output_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return check_writable(folder);
  // Makes the first missing folder and removes it again, because permissions alone do not tell
  // whether that is possible.
  fs::path missing = fs::absolute(folder).lexically_normal();
  while (missing.has_relative_path() && !fs::exists(missing.parent_path(), error))
    missing = missing.parent_path();
  if (!fs::exists(missing, error) && fs::create_directory(missing, error)) {
    check_writable(missing);
    fs::remove(missing, error);
    return;
  }
  fail(ErrorKind::cannot_write, "cannot make output folder {}: {}", folder.string(),
       error ? error.message() : "a file of that name exists");
}

}  // namespace tasuki
