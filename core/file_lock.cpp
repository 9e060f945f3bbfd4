#include "tasuki/core/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "tasuki/core/error.hpp"

namespace tasuki {

std::optional<FileLock> FileLock::try_lock(const std::filesystem::path& file,
                                           std::string_view holder) {
  // Opened for writing, because NFS requires that.
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0)
    fail(ErrorKind::cannot_write, "cannot write {}: {}", file.string(), std::strerror(errno));
  FileLock lock(descriptor, "");
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    lock.what_is_missing_ = std::strerror(errno);
  }
  // The text is only for messages; a full disk is reported elsewhere.
  if (::ftruncate(descriptor, 0) == 0)
    static_cast<void>(::pwrite(descriptor, holder.data(), holder.size(), 0));
  return lock;
}

bool FileLock::is_held(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool is_held = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);  // which gives the lock back
  return is_held;
}

FileLock::FileLock(int descriptor, std::string what_is_missing)
    : descriptor_(descriptor), what_is_missing_(std::move(what_is_missing)) {}

FileLock::FileLock(FileLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      what_is_missing_(std::move(other.what_is_missing_)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(what_is_missing_, other.what_is_missing_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string holder_of_lock(const std::filesystem::path& file) {
  std::string holder;
  std::getline(std::ifstream(file), holder);
  return holder.empty() ? "another process" : holder;
}

}  // namespace tasuki
