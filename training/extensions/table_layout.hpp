// TableLayout: columns side by side on lines that fit a terminal.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tasuki {

// With enough room: Chainer's columns, left-aligned, max(10, length of the name) wide, two spaces
// apart, numbers as %g. On narrower lines: columns of 10 to 6 characters, names over several lines
// and numbers with fewer digits; if that is still too wide, only the first columns.
class TableLayout {
 public:
  // `width`: characters that a line may have, or unlimited_width (terminal.hpp).
  TableLayout(std::vector<std::string> names, std::size_t width);

  // The names, in one or more lines, without the last line's end.
  std::string header() const;
  // One line, without its end; blanks for values that an entry lacks.
  std::string row(const nlohmann::ordered_json& entry) const;

  bool operator==(const TableLayout&) const = default;

 private:
  std::string cell(const nlohmann::ordered_json& value, std::size_t width) const;

  std::vector<std::string> names_;
  std::vector<std::size_t> widths_;
  std::size_t gap_ = 2;
  bool is_limited_;  // then blanks at the end of a line are left out
  bool is_narrow_ = false;
};

}  // namespace tasuki
