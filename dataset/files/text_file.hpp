// A text file line by line, plain or gzip-compressed (detected by its contents).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/files/input_file.hpp"

namespace tasuki {

class TextFile {
 public:
  // An error of kind missing when there is no such file.
  explicit TextFile(const std::filesystem::path& path) : file_(path) {}

  // The next line that is not blank, without its end (LF or CR LF) and without a UTF-8 byte order
  // mark; valid until the next call. False at the end. A line of more than 64 MiB is an error of
  // kind data, because the file cannot be text.
  bool next(std::string_view& line);
  // The number of the line read last, counted from 1.
  std::int64_t number() const { return number_; }
  // "words.txt: line 7", for messages.
  std::string place() const;

  // The number of lines that next() returns.
  static std::int64_t count_lines(const std::filesystem::path& path);

 private:
  bool fill();

  InputFile file_;
  std::string buffer_;
  std::size_t begin_ = 0;  // of what next() has not returned yet
  bool has_ended_ = false;
  std::int64_t number_ = 0;
};

// Makes a place for messages: "houses.csv: line 3, column 'price'". Called only for messages.
using Place = std::function<std::string()>;

// Splits a line at `separator`. A cell that begins with a double quote extends to the next one,
// separators included, and two quotes in it stand for one. Blanks around cells are dropped. A
// missing closing quote is an error of kind data that begins with `place`.
std::vector<std::string> split_cells(std::string_view line, char separator, const Place& place);

// A finite number that takes up the whole text; one too small for a float is 0. Anything else is an
// error of kind data that begins with `place`.
float parse_number(std::string_view text, const Place& place);
// An integer from `least` to `most`.
std::int64_t parse_integer(std::string_view text, std::int64_t least, std::int64_t most,
                           const Place& place);

}  // namespace tasuki
