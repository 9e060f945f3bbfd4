// MappedFile: a file's bytes in memory, which the system reads when they are first used.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "saving/regular_file.hpp"

namespace tasuki {

// All processes of a machine share the memory, and the system takes it back when it needs it. The
// system ends a process that uses what it cannot read (SIGBUS): the file was shortened meanwhile,
// or its disk or network file system fails.
class MappedFile {
 public:
  // Opens and maps it. Errors as of RegularFile.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const RegularFile& file() const { return file_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(const std::filesystem::path& path);

  RegularFile file_;
  std::span<const std::byte> bytes_;
};

}  // namespace tasuki
