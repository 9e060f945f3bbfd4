// Sequential reading of a data file, plain or gzip-compressed (detected by its contents), and
// checks of its labels.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tasuki {

class InputFile {
 public:
  // An error of kind missing if there is no such file.
  explicit InputFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  // States how many (unpacked) bytes the file must have, and why; called when the header is known.
  // A file that cannot have as many is an error of kind data at once, before memory is allocated
  // for it.
  void expect_size(std::int64_t bytes, std::string reason);
  // Reads exactly this many bytes; an error of kind data says where the file ended.
  void read(std::byte* destination, std::size_t bytes);
  // Reads up to this many bytes; fewer only at the end.
  std::size_t read_some(std::byte* destination, std::size_t bytes);
  // An error of kind data if bytes follow (also after the gzip data), or if the checksum of a gzip
  // file does not match.
  void check_end();

 private:
  struct EndInflate {
    void operator()(z_stream* stream) const;
  };

  std::size_t inflate_some(std::byte* destination, std::size_t bytes);
  // Appends more packed bytes to what is left; returns whether there are any.
  bool refill();
  void begin_next_member();
  void fail_if_broken() const;

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::unique_ptr<z_stream, EndInflate> stream_;  // of a gzip file
  std::vector<unsigned char> packed_;             // its input
  bool has_ended_ = false;                        // after the last member
  std::int64_t unread_ = 0;                       // bytes of the file after that
  std::int64_t position_ = 0;
  std::int64_t expected_ = -1;
  std::string reason_;
};

// An error of kind data if a label is outside 0 .. classes - 1; `example` is its number in the
// file, `in_data_set` in a data set of several files.
void check_label(std::int32_t label, std::int64_t classes, std::int64_t example,
                 const std::filesystem::path& path,
                 std::optional<std::int64_t> in_data_set = std::nullopt);

}  // namespace tasuki
