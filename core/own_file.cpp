#include "core/own_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/named_file.hpp"
#include "core/system_error.hpp"
#include "core/temporary_name.hpp"

namespace tasuki {
namespace fs = std::filesystem;
namespace {

int flags_of(OwnFile how) {
  constexpr int always = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  switch (how) {
    case OwnFile::read:
      return always | O_RDONLY;
    case OwnFile::append:
      return always | O_WRONLY | O_CREAT | O_APPEND;
    case OwnFile::update:
      return always | O_RDWR | O_CREAT;
    case OwnFile::renew:  // emptied only once it is known to be a regular file
      return always | O_WRONLY | O_CREAT;
    case OwnFile::make:
      return always | O_WRONLY | O_CREAT | O_EXCL;
  }
  fail(ErrorKind::internal, "no way to open a file");
}

const char* kind_of_file(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFLNK:
      return "a link";
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFREG:
      return "a file";
    default:
      return "a device";
  }
}

[[noreturn]] void refuse(const fs::path& path, bool reads, mode_t mode) {
  if (reads)
    fail(ErrorKind::data, "cannot read {}: expected a regular file, found {}",
         final_path(path).string(), kind_of_file(mode));
  fail(ErrorKind::cannot_write, "cannot write {}: expected a regular file, found {}; remove it",
       final_path(path).string(), kind_of_file(mode));
}

}  // namespace

Descriptor open_own_file(const fs::path& path, OwnFile how) {
  const bool reads = how == OwnFile::read;
  Descriptor file(::open(path.c_str(), flags_of(how), 0666));
  struct stat found {};
  if (!file) {
    const std::error_code cause = last_system_error();
    // Links are ELOOP; pipes without a reader and sockets are ENXIO, folders EISDIR.
    if (how != OwnFile::make && ::lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
      refuse(path, reads, found.st_mode);
    if (reads)
      fail_because(cause, kind_of_absence(cause), "cannot read {}", final_path(path).string());
    fail_because(cause, ErrorKind::cannot_write, "cannot write {}", final_path(path).string());
  }
  if (::fstat(file.get(), &found) != 0)
    fail_because(last_system_error(), reads ? ErrorKind::io : ErrorKind::cannot_write,
                 "cannot examine {}", final_path(path).string());
  if (!S_ISREG(found.st_mode)) refuse(path, reads, found.st_mode);
  if (!reads && found.st_nlink > 1)
    fail(ErrorKind::cannot_write, "cannot write {}: the file has {} hard links; remove it",
         final_path(path).string(), found.st_nlink);
  if (how == OwnFile::renew && ::ftruncate(file.get(), 0) != 0)
    fail_because(last_system_error(), ErrorKind::cannot_write, "cannot write {}",
                 final_path(path).string());
  return file;
}

std::string read_own_file(const fs::path& path, std::size_t most) {
  return read_to_end(open_own_file(path, OwnFile::read), path, most);
}

void check_own_file(const fs::path& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
    refuse(path, /*reads=*/false, found.st_mode);
}

void make_own_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0777) == 0)
    return sync_folder(path.has_parent_path() ? path.parent_path() : ".");
  const std::error_code cause = last_system_error();
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || cause != std::errc::file_exists)
    fail_because(cause, ErrorKind::cannot_write, "cannot make {}", final_path(path).string());
  if (!S_ISDIR(found.st_mode))
    fail(ErrorKind::cannot_write, "cannot make {}: expected a folder or nothing, found {}",
         final_path(path).string(), kind_of_file(found.st_mode));
}

void write_to(const Descriptor& file, std::string_view contents, const fs::path& path) {
  while (!contents.empty()) {
    const ssize_t written = ::write(file.get(), contents.data(), contents.size());
    if (written >= 0)
      contents.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      fail_because(last_system_error(), ErrorKind::cannot_write, "cannot write {} bytes to {}",
                   contents.size(), final_path(path).string());
  }
}

}  // namespace tasuki
