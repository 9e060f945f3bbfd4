// A lock on a file that one process at a time holds.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tasuki {

// flock: advisory, on NFS as well, and released by the system when the process ends, however it
// ends. The file stays, with the text of the last holder.
class FileLock {
 public:
  // Tries once, without waiting: nothing where another process holds the lock. Makes the file if
  // it is missing (where it cannot: an error of kind cannot_write) and writes `holder` into it, a
  // line that says who holds it.
  static std::optional<FileLock> try_lock(const std::filesystem::path& file,
                                          std::string_view holder);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  // Empty, or why this file system has no locks: then nothing keeps others away.
  const std::string& what_is_missing() const { return what_is_missing_; }

 private:
  FileLock(int descriptor, std::string what_is_missing);

  int descriptor_;
  std::string what_is_missing_;
};

// What the holder of the lock wrote; "another process" where that cannot be read.
std::string holder_of_lock(const std::filesystem::path& file);

}  // namespace tasuki
