// LineReader: the lines of a text of any size, such as a file that grows with a run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/descriptor.hpp"

namespace tasuki {

class LineReader {
 public:
  // Of an open file, from where it stands, read in pieces. `path` is for errors: as read_part()
  // has them, and of kind data for a line of more than 16 MiB.
  LineReader(Descriptor file, std::filesystem::path path);
  // Of a text, which must live as long.
  explicit LineReader(std::string_view text) : rest_(text) {}
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  struct Line {
    std::string_view text;  // without the line end; valid until the next call
    bool is_whole = true;   // false: the last line, without a line end
  };
  // Nothing at the end.
  std::optional<Line> next();

 private:
  bool read_more();

  Descriptor file_;
  std::filesystem::path path_;
  std::string buffer_;
  std::string_view rest_;  // what next() has not given yet: the end of the buffer, or of the text
};

}  // namespace tasuki
