// A table of text in columns.
#pragma once

#include <string>
#include <vector>

namespace tasuki::predict {

// Columns are as wide as their widest cell, in characters (UTF-8); the last one is not padded.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { add(std::move(header)); }
  void add(std::vector<std::string> cells);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

}  // namespace tasuki::predict
