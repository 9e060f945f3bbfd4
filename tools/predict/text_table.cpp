#include "tools/predict/text_table.hpp"

#include <algorithm>
#include <utility>

#include "core/printable.hpp"

namespace tasuki::predict {
namespace {

// In characters: the first byte of each in UTF-8.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

void TextTable::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  widths_.resize(std::max(widths_.size(), cells.size()));
  for (std::size_t i = 0; i < cells.size(); ++i)
    widths_[i] = std::max(widths_[i], std::min(width_of(cells[i]), most_));
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::string text;
  for (const auto& cells : rows_) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      text += cells[i];
      if (i + 1 == cells.size()) continue;
      text.append(std::max(widths_[i], width_of(cells[i])) - width_of(cells[i]) + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace tasuki::predict
