#include "training/step_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/growing_file.hpp"
#include "core/json.hpp"
#include "core/named_file.hpp"
#include "core/own_file.hpp"
#include "core/printable.hpp"

namespace tasuki {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view csv_begin = "iteration,epoch,elapsed_time,seconds";
constexpr std::string_view json_begin = "{\"iteration\":";

using Cell = std::pair<std::string, double>;
using Cells = std::vector<Cell>;

Cells cells_of(const StepRow& row) {
  Cells cells = {{"epoch", row.epoch}, {"elapsed_time", row.elapsed_time}};
  for (auto& time : row.times()) cells.push_back(std::move(time));
  if (row.lr) cells.emplace_back("lr", *row.lr);
  const auto is_taken = [&](const std::string& name) {
    return name == "iteration" || std::ranges::count(cells, name, &Cell::first) > 0;
  };
  for (StepRow::Value& value : row.values())
    if (!is_taken(value.key)) cells.emplace_back(std::move(value.key), value.mean);
  return cells;
}

// As RFC 4180 has it. Line ends, which no reader of lines would find, are left out.
std::string csv_name(std::string name) {
  std::erase_if(name, [](char c) { return c == '\n' || c == '\r'; });
  if (name.find_first_of(",\"") == name.npos) return name;
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

// The fields of a line as they stand there.
std::vector<std::string> csv_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '"') is_quoted = !is_quoted;
    if (c == ',' && !is_quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

std::string joined(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) line += (line.empty() ? "" : ",") + field;
  return line;
}

bool is_header_line(std::string_view line) {
  if (!line.starts_with(csv_begin)) return false;
  line.remove_prefix(csv_begin.size());
  return line.empty() || line.front() == ',';
}

// The iteration with which a row begins; nothing for another line.
std::optional<std::int64_t> iteration_in(std::string_view line, StepFormat format) {
  if (format == StepFormat::json_lines) {
    if (!line.starts_with(json_begin) || !line.ends_with('}')) return std::nullopt;
    line.remove_prefix(json_begin.size());
  }
  std::int64_t iteration = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), iteration);
  const bool has_number = error == std::errc() && iteration > 0 && end != line.data() + line.size();
  return has_number && *end == ',' ? std::optional(iteration) : std::nullopt;
}

[[noreturn]] void refuse(const std::string& place, std::size_t number, std::string_view expected,
                         std::string_view found) {
  fail(ErrorKind::data,
       "{}, line {}: expected {}, found '{}'; --log-steps goes on only in files that it has "
       "written: "
       "move this one away, or give another name",
       place, number, expected, quoted_input(found));
}

// Text of a file that is there, or nothing.
std::string text_in(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored) ? read_own_file(file, own_log_limit) : "";
}

}  // namespace

std::optional<StepFormat> step_format_of(const fs::path& file) {
  if (file.extension() == ".csv") return StepFormat::csv;
  if (file.extension() == ".jsonl") return StepFormat::json_lines;
  return std::nullopt;
}

KeptSteps steps_up_to(std::int64_t iteration, std::string_view text, StepFormat format,
                      const std::string& place) {
  KeptSteps kept;
  std::int64_t last = 0;
  for (std::size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    const bool is_whole = end != text.npos;
    const std::string_view line = text.substr(begin, end - begin);
    const bool is_header = number == 1 && format == StepFormat::csv;
    if (is_header) {
      if (!is_whole || !is_header_line(line))
        refuse(place, number, fmt::format("'{},...'", csv_begin), line);
      kept.columns = csv_fields(line);
    } else {
      if (!is_whole) break;  // written in part by a process that was killed
      const std::optional<std::int64_t> found = iteration_in(line, format);
      if (!found || *found <= last)
        refuse(place, number, fmt::format("the row of an iteration after {}", last), line);
      if (*found > iteration) break;
      last = *found;
    }
    begin = end + 1;
    kept.bytes = static_cast<std::int64_t>(begin);
  }
  return kept;
}

StepTable::StepTable(fs::path file, StepFormat format, std::int64_t iteration)
    : path_(end_of_links(std::move(file))), format_(format) {
  KeptSteps kept = steps_up_to(iteration, text_in(path_), format, path_.string());
  file_ = std::make_unique<GrowingFile>(path_, OwnFile::update);
  file_->cut(kept.bytes);
  columns_ = std::move(kept.columns);
}

StepTable::~StepTable() = default;
StepTable::StepTable(StepTable&&) noexcept = default;
StepTable& StepTable::operator=(StepTable&&) noexcept = default;

std::string StepTable::text_of(const StepRow& row) const {
  const Cells cells = cells_of(row);
  if (format_ == StepFormat::json_lines) {
    nlohmann::ordered_json object = {{"iteration", row.iteration}};
    for (const auto& [name, value] : cells) object[name] = value;
    return json_text(object) + '\n';
  }
  std::string line = std::to_string(row.iteration);
  for (const std::string& column : std::span(columns_).subspan(1)) {
    const auto cell = std::ranges::find_if(
        cells, [&](const auto& each) { return csv_name(each.first) == column; });
    line += cell != cells.end() ? fmt::format(",{}", cell->second) : ",";
  }
  return line + '\n';
}

void StepTable::widen() {
  std::vector<std::string> wider = columns_;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(wider, name) == wider.end()) wider.push_back(name);
  };
  if (!rows_.empty()) add("iteration");
  for (const StepRow& row : rows_)
    for (const auto& cell : cells_of(row)) add(csv_name(cell.first));
  if (wider.size() == columns_.size()) return;
  if (columns_.empty()) {
    file_->append(joined(wider) + '\n');
  } else {
    std::string text = joined(wider) + '\n';
    const std::string empty(wider.size() - columns_.size(), ',');
    const std::string old = text_in(path_) + file_->waiting();
    for (std::size_t begin = old.find('\n') + 1; begin < old.size();) {
      const std::size_t end = old.find('\n', begin);
      text += old.substr(begin, end - begin) + empty + '\n';
      begin = end + 1;
    }
    file_->replace(text);
  }
  columns_ = std::move(wider);
}

void StepTable::make_anew_if_removed() {
  if (file_->is_there()) return;
  const bool has_header = file_->size() == std::ssize(file_->waiting());
  GrowingFile made(path_, OwnFile::make);
  if (!has_header && format_ == StepFormat::csv) made.append(joined(columns_) + '\n');
  made.append(file_->waiting());
  *file_ = std::move(made);
}

void StepTable::flush() {
  make_anew_if_removed();
  if (format_ == StepFormat::csv) widen();
  for (; !rows_.empty(); rows_.pop_front()) file_->append(text_of(rows_.front()));
  file_->flush();
}

}  // namespace tasuki
