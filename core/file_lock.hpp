// A lock on a file, held by one process at a time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/descriptor.hpp"

namespace tasuki {

// flock: advisory, works on NFS, and released by the system however the process ends. The file
// stays, with the text of the last holder. Links are not followed (own_file.hpp).
class FileLock {
 public:
  // Tries once, without waiting: nothing if another process holds the lock. Creates the file if it
  // is missing (an error of kind cannot_write if that fails) and writes `holder` into it, a line
  // that describes the holder and begins with "pid ". A file that holds any other text is not
  // changed.
  static std::optional<FileLock> try_lock(const std::filesystem::path& file,
                                          std::string_view holder);
  // Whether another process holds the lock. Creates and writes nothing; false if there is no such
  // file, or no locks.
  static bool is_held(const std::filesystem::path& file);
  // Whether the path still names the locked file. If not, the file was removed or replaced, and
  // another process may lock what is there now.
  bool is_at(const std::filesystem::path& file) const;
  // Empty, or why this file system has no locks, in which case other processes are not kept away.
  const std::string& what_is_missing() const { return what_is_missing_; }

 private:
  explicit FileLock(Descriptor file) : file_(std::move(file)) {}

  Descriptor file_;
  std::string what_is_missing_;
};

// The text of the lock's holder; "another process" if it cannot be read.
std::string holder_of_lock(const std::filesystem::path& file);

}  // namespace tasuki
