// MemoryFile: a file in memory that other processes can open by a path.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tasuki::processes {

// It disappears with this object or process. Errors are of kind io.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents = "");
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Valid for this process and others of the same user on this machine.
  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  std::string text() const;

 private:
  int descriptor_;
  std::filesystem::path path_;
};

}  // namespace tasuki::processes
