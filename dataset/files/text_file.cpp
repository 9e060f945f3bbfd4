#include "dataset/files/text_file.hpp"

#include <charconv>
#include <cmath>
#include <locale>
#include <sstream>
#include <vector>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/utf8.hpp"

namespace tasuki {
namespace {

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

template <class Number>
std::errc parse(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  return result.ptr == end ? result.ec : std::errc::invalid_argument;
}

// from_chars does not distinguish underflow from overflow; a stream fails only on overflow.
bool parse_tiny(std::string_view text, float& number) {
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  return static_cast<bool>(stream >> number);
}

}  // namespace

bool TextFile::next(std::string_view& line) {
  constexpr std::size_t longest = std::size_t{64} << 20;
  for (std::size_t searched = 0;;) {
    const std::size_t end = buffer_.find('\n', begin_ + searched);
    if (end == std::string::npos && !has_ended_) {
      searched = buffer_.size() - begin_;
      if (searched > longest)
        fail(ErrorKind::data, "{}: expected text, found a line of more than {} MiB",
             file_.path().string(), longest >> 20);
      fill();
      continue;
    }
    if (end == std::string::npos && begin_ == buffer_.size()) return false;
    ++number_;
    line = std::string_view(buffer_).substr(begin_, end == std::string::npos ? end : end - begin_);
    begin_ = end == std::string::npos ? buffer_.size() : end + 1;
    if (number_ == 1) line = without_byte_order_mark(line);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!without_blanks(line).empty()) return true;
    searched = 0;
  }
}

bool TextFile::fill() {
  constexpr std::size_t piece = 64 << 10;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + piece);
  const std::size_t read =
      file_.read_some(reinterpret_cast<std::byte*>(buffer_.data() + before), piece);
  buffer_.resize(before + read);
  has_ended_ = read < piece;
  if (has_ended_) file_.check_end();
  return read > 0;
}

std::string TextFile::place() const {
  return fmt::format("{}: line {}", file_.path().string(), number_);
}

std::int64_t TextFile::count_lines(const std::filesystem::path& path) {
  TextFile file(path);
  std::int64_t lines = 0;
  for (std::string_view line; file.next(line);) ++lines;
  return lines;
}

std::vector<std::string> split_cells(std::string_view line, char separator, const Place& place) {
  std::vector<std::string> cells;
  for (;;) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin != std::string_view::npos && line[begin] == '"') {
      std::string cell;
      std::size_t at = begin + 1;
      for (;; ++at) {
        if (at == line.size())
          fail(ErrorKind::data, "{}, value {}: expected a closing quote, found the end of the line",
               place(), cells.size() + 1);
        if (line[at] == '"') {
          if (at + 1 == line.size() || line[at + 1] != '"') break;
          ++at;
        }
        cell += line[at];
      }
      const std::size_t end = line.find(separator, at);
      if (!without_blanks(line.substr(at + 1, end == std::string_view::npos ? end : end - at - 1))
               .empty())
        fail(ErrorKind::data, "{}, value {}: expected '{}' after a closing quote, found '{}'",
             place(), cells.size() + 1, separator, quoted_input(line.substr(at + 1)));
      cells.push_back(std::move(cell));
      if (end == std::string_view::npos) return cells;
      line.remove_prefix(end + 1);
      continue;
    }
    const std::size_t end = line.find(separator);
    cells.emplace_back(without_blanks(line.substr(0, end)));
    if (end == std::string_view::npos) return cells;
    line.remove_prefix(end + 1);
  }
}

float parse_number(std::string_view text, const Place& place) {
  float number = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::errc problem = parse(text, number);
  const bool is_number = problem == std::errc() ||
                         (problem == std::errc::result_out_of_range && parse_tiny(text, number));
  if (!is_number || !std::isfinite(number))
    fail(ErrorKind::data, "{}: expected a number, found '{}'", place(), quoted_input(text));
  return number;
}

std::int64_t parse_integer(std::string_view text, std::int64_t least, std::int64_t most,
                           const Place& place) {
  std::int64_t number = 0;
  if (parse(text, number) != std::errc() || number < least || number > most)
    fail(ErrorKind::data, "{}: expected an integer from {} to {}, found '{}'", place(), least, most,
         quoted_input(text));
  return number;
}

}  // namespace tasuki
