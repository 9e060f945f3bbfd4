// GrowingFile: a file of Tasuki's own (own_file.hpp) to which text is appended while a job runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/own_file.hpp"

namespace tasuki {

// Text stays in memory until flush(). If the disk is full, a flush leaves no part of it behind and
// keeps it for the next one; whoever appends sees to it that waiting() has an end. Errors are of
// kind cannot_write.
class GrowingFile {
 public:
  // Text is appended to what the file has; `how`: update, renew or make.
  GrowingFile(std::filesystem::path path, OwnFile how);

  const std::filesystem::path& path() const { return path_; }
  void append(std::string_view text) { waiting_ += text; }
  void flush();
  // Waits until what was flushed is on disk.
  void sync() const;
  // Bytes of the file and of what waits to be written.
  std::int64_t size() const { return written_ + static_cast<std::int64_t>(waiting_.size()); }
  const std::string& waiting() const { return waiting_; }
  // Removes what is behind the first `bytes`, if there is more.
  void cut(std::int64_t bytes);
  // Replaces everything, atomically (replace_file), by what `write` puts, piece by piece; on
  // failure nothing changes.
  using Put = std::function<void(std::string_view text)>;
  void replace(const std::function<void(const Put& put)>& write);
  // Whether the file still is at its path: it may have been removed or replaced.
  bool is_there() const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::int64_t written_ = 0;
  std::string waiting_;
};

}  // namespace tasuki
