#include "training/extensions/table_layout.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/printable.hpp"
#include "core/terminal.hpp"

namespace tasuki {
namespace {

// Splits a name into lines of `width` characters, after '/' and '_' if possible.
std::vector<std::string> parts_of(const std::string& name, std::size_t width) {
  std::vector<std::string> parts(1);
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t separator = name.find_first_of("/_", at);
    const std::size_t end = std::min({separator, name.size() - 1, at + width - 1}) + 1;
    if (parts.back().size() + end - at > width) parts.emplace_back();
    parts.back() += name.substr(at, end - at);
    at = end;
  }
  return parts;
}

void remove_blanks_at_end(std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
}

}  // namespace

TableLayout::TableLayout(std::vector<std::string> names, std::size_t width)
    : names_(std::move(names)), is_limited_(width < unlimited_width) {
  constexpr std::size_t widest = 10, narrowest = 6, enough_for_gap = 8;
  for (const std::string& name : names_) widths_.push_back(std::max(widest, name.size()));
  const auto total = [this] {
    return std::accumulate(widths_.begin(), widths_.end(), gap_ * (names_.size() - 1));
  };
  if (names_.empty() || total() <= width) return;
  is_narrow_ = true;
  for (std::size_t cell = widest; cell >= narrowest && total() > width; --cell) {
    widths_.assign(names_.size(), cell);
    gap_ = cell >= enough_for_gap ? 2 : 1;
  }
  while (names_.size() > 1 && total() > width) {
    names_.pop_back();
    widths_.pop_back();
  }
  widths_.back() = std::min(widths_.back(), width);
}

std::string TableLayout::header() const {
  std::vector<std::vector<std::string>> columns;
  std::size_t lines = 1;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    columns.push_back(parts_of(names_[i], widths_[i]));
    lines = std::max(lines, columns.back().size());
  }
  std::string text;
  for (std::size_t line = 0; line < lines; ++line) {
    std::string own;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::size_t above = lines - columns[i].size();  // names are aligned at the bottom
      own += fmt::format("{:{}}{:<{}}", "", i == 0 ? 0 : gap_,
                         line < above ? "" : columns[i][line - above], widths_[i]);
    }
    if (is_limited_) remove_blanks_at_end(own);
    text += (line == 0 ? "" : "\n") + own;
  }
  return text;
}

std::string TableLayout::cell(const nlohmann::ordered_json& value, std::size_t width) const {
  if (value.is_null()) return "nan";
  if (!value.is_number()) return printable(value.get<std::string>().substr(0, width));
  std::string text = value.is_number_integer() ? fmt::format("{}", value.get<std::int64_t>())
                                               : fmt::format("{:g}", value.get<double>());
  if (!is_narrow_) return text;
  for (int digits = 5; digits >= 1 && text.size() > width; --digits)
    text = fmt::format("{:.{}g}", value.get<double>(), digits);
  return text.substr(0, width);
}

std::string TableLayout::row(const nlohmann::ordered_json& entry) const {
  std::string line;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const auto value = entry.find(names_[i]);
    line += fmt::format("{:<{}}{:{}}", value == entry.end() ? "" : cell(*value, widths_[i]),
                        widths_[i], "", gap_);
  }
  if (is_limited_) remove_blanks_at_end(line);
  return line;
}

}  // namespace tasuki
