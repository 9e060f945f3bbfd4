#include "core/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/own_file.hpp"
#include "core/printable.hpp"

namespace tasuki {
namespace {

// A file with another text was not written by a job.
bool has_text_of_a_holder(const Descriptor& file) {
  constexpr std::string_view start = "pid ";
  std::array<char, start.size()> found{};
  const ssize_t bytes = ::pread(file.get(), found.data(), found.size(), 0);
  return bytes == 0 ||
         (bytes == std::ssize(found) && start == std::string_view(found.data(), found.size()));
}

}  // namespace

std::optional<FileLock> FileLock::try_lock(const std::filesystem::path& file,
                                           std::string_view holder) {
  // Opened for writing, because NFS requires that.
  FileLock lock(open_own_file(file, OwnFile::update));
  const int descriptor = lock.file_.get();
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    lock.what_is_missing_ = std::strerror(errno);
  }
  // The text is only for messages; a full disk is reported elsewhere.
  if (has_text_of_a_holder(lock.file_) && ::ftruncate(descriptor, 0) == 0)
    static_cast<void>(::pwrite(descriptor, holder.data(), holder.size(), 0));
  return lock;
}

bool FileLock::is_held(const std::filesystem::path& file) {
  const Descriptor found(::open(file.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  // Closing it gives the lock back.
  return found && ::flock(found.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool FileLock::is_at(const std::filesystem::path& file) const {
  struct stat held {
  }, found{};
  return ::fstat(file_.get(), &held) == 0 && ::lstat(file.c_str(), &found) == 0 &&
         held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

std::string holder_of_lock(const std::filesystem::path& file) {
  constexpr std::size_t most = 200;
  try {
    if (const auto holder = first_line_in(file)) return printable(*holder, most);
  } catch (const Error&) {  // not a job's file
  }
  return "another process";
}

}  // namespace tasuki
