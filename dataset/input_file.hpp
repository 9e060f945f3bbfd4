// Sequential reading of a data file, plain or gzip-compressed (found by its contents).
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace tasuki {

class InputFile {
 public:
  // An error of kind missing when there is no such file.
  explicit InputFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  // Says how many (unpacked) bytes the file must have and why; called when the header is known. A
  // file that cannot have as many is an error of kind data at once, before memory is taken for it.
  void expect_size(std::int64_t bytes, std::string reason);
  // Reads exactly this many bytes; an error of kind data says where the file ended.
  void read(std::byte* destination, std::size_t bytes);
  // An error of kind data when bytes follow, or when the checksum of a gzip file does not match.
  void check_end();

 private:
  // Up to this many bytes; fewer only at the end.
  std::size_t read_some(std::byte* destination, std::size_t bytes);

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::int64_t position_ = 0;
  std::int64_t expected_ = -1;
  std::string reason_;
};

}  // namespace tasuki
