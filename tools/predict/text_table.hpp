// A table of text in columns.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tasuki::predict {

// Columns are as wide as their widest cell, in characters (UTF-8), but at most `most` wide; a
// longer cell shifts the rest of its own row. The last column is not padded.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header, std::size_t most = 1000) : most_(most) {
    add(std::move(header));
  }
  void add(std::vector<std::string> cells);
  std::string text() const;

 private:
  std::size_t most_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

}  // namespace tasuki::predict
