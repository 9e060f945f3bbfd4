// A lock on a file, held by one process at a time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tasuki {

// flock: advisory, works on NFS, and is released by the system when the process ends, however it
// ends. The file stays, with the text of the last holder.
class FileLock {
 public:
  // Tries once, without waiting: nothing if another process holds the lock. Makes the file if it is
  // missing (an error of kind cannot_write if that fails) and writes `holder` into it, a line that
  // describes the holder.
  static std::optional<FileLock> try_lock(const std::filesystem::path& file,
                                          std::string_view holder);
  // Whether another process holds the lock. Makes and writes nothing; false if there is no such
  // file, or no locks.
  static bool is_held(const std::filesystem::path& file);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  // Empty, or why this file system has no locks; then other processes are not kept away.
  const std::string& what_is_missing() const { return what_is_missing_; }

 private:
  FileLock(int descriptor, std::string what_is_missing);

  int descriptor_;
  std::string what_is_missing_;
};

// The text of the lock's holder; "another process" if it cannot be read.
std::string holder_of_lock(const std::filesystem::path& file);

}  // namespace tasuki
