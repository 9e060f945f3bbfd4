#include "training/step_table.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/growing_file.hpp"
#include "core/hash.hpp"
#include "core/json.hpp"
#include "core/line_reader.hpp"
#include "core/long_call.hpp"
#include "core/named_file.hpp"
#include "core/own_file.hpp"
#include "core/printable.hpp"

namespace tasuki {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view csv_begin = "iteration,epoch,elapsed_time,seconds";
constexpr std::string_view json_begin = "{\"iteration\":";

using Cell = std::pair<std::string, double>;
using Cells = std::vector<Cell>;  // of a row, but for its iteration

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

bool is_header_line(std::string_view line) {
  if (!line.starts_with(csv_begin)) return false;
  line.remove_prefix(csv_begin.size());
  return line.empty() || line.front() == ',';
}

// Whether a first line without an end is a header, or a row of JSON, that a process was killed
// over.
bool may_be_cut(std::string_view line, StepFormat format) {
  const std::string_view begin = format == StepFormat::csv ? csv_begin : json_begin;
  return begin.starts_with(line) ||
         (format == StepFormat::csv ? is_header_line(line) : line.starts_with(begin));
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

StepMark mark_of(std::int64_t iteration, std::string_view row) {
  return {iteration, hash_text(row.substr(0, row.find_last_not_of(',') + 1))};
}

[[noreturn]] void refuse(const std::string& place, std::size_t number, std::string_view expected,
                         std::string_view found) {
  fail(ErrorKind::data,
       "{}, line {}: expected {}, found '{}'; --log-steps goes on only in files that it has "
       "written: "
       "move this one away, or give another name",
       place, number, expected, quoted_input(found));
}

}  // namespace

std::optional<StepFormat> step_format_of(const fs::path& file) {
  if (file.extension() == ".csv") return StepFormat::csv;
  if (file.extension() == ".jsonl") return StepFormat::json_lines;
  return std::nullopt;
}

KeptSteps steps_up_to(std::int64_t iteration, LineReader& lines, StepFormat format,
                      const std::string& place, const StepMark& mark) {
  KeptSteps kept;
  bool has_lines = false, has_mark = mark.iteration == 0;
  std::size_t number = 0;
  while (const auto line = lines.next()) {
    const bool is_header = ++number == 1 && format == StepFormat::csv;
    // Written in part by a process that was killed; what is no row at all may be another program's.
    if (!line->is_whole && (number > 1 || may_be_cut(line->text, format))) break;
    has_lines = true;
    if (is_header) {
      if (!is_header_line(line->text))
        refuse(place, number, fmt::format("'{},...'", csv_begin), line->text);
      kept.columns = csv_fields(line->text);
    } else {
      const std::optional<std::int64_t> found = iteration_in(line->text, format);
      if (!found || *found <= kept.last.iteration)
        refuse(place, number, fmt::format("the row of an iteration after {}", kept.last.iteration),
               line->text);
      if (*found > iteration) break;
      kept.last = mark_of(*found, line->text);
      has_mark = has_mark || kept.last == mark;
    }
    kept.bytes += std::ssize(line->text) + 1;
  }
  if (has_lines && !has_mark)
    fail(ErrorKind::data,
         "{}: it lacks the row of iteration {} that this run had written when it was saved, so it "
         "is "
         "another run's or was cut; move it away, or give --log-steps another name",
         place, mark.iteration);
  return kept;
}

StepTable::StepTable(fs::path file, StepFormat format, std::int64_t iteration, const StepMark& mark)
    : path_(end_of_links(std::move(file))), format_(format) {
  KeptSteps kept;
  if (std::error_code ignored; fs::exists(path_, ignored)) {
    const LongCall reading;
    LineReader lines(open_own_file(path_, OwnFile::read), path_);
    kept = steps_up_to(iteration, lines, format, path_.string(), mark);
  }
  file_ = std::make_unique<GrowingFile>(path_, OwnFile::update);
  file_->cut(kept.bytes);
  columns_ = std::move(kept.columns);
  columns_in_file_ = columns_.size();
  added_ = written_ = kept.last;
}

StepTable::~StepTable() = default;
StepTable::StepTable(StepTable&&) noexcept = default;
StepTable& StepTable::operator=(StepTable&&) noexcept = default;

void StepTable::add(const StepRow& row) {
  const Cells cells = cells_of(row);
  if (format_ == StepFormat::json_lines) {
    nlohmann::ordered_json object = {{"iteration", row.iteration}};
    for (const auto& [name, value] : cells) object[name] = value;
    return append(row.iteration, json_text(object));
  }
  if (columns_.empty()) columns_ = {"iteration"};
  std::vector<std::string> fields(columns_.size());
  fields[0] = std::to_string(row.iteration);
  for (const auto& [name, value] : cells) {
    std::string column = csv_name(name);
    const auto found = std::ranges::find(columns_, column) - columns_.begin();
    if (found == std::ssize(columns_)) {
      columns_.push_back(std::move(column));
      fields.emplace_back();
    }
    std::string& field = fields[static_cast<std::size_t>(found)];
    if (field.empty()) field = fmt::format("{}", value);
  }
  append(row.iteration, fmt::format("{}", fmt::join(fields, ",")));
}

void StepTable::append(std::int64_t iteration, const std::string& row) {
  added_ = mark_of(iteration, row);
  file_->append(row + '\n');
}

std::int64_t StepTable::waiting() const {
  return std::ssize(file_->waiting());
}

void StepTable::widen() {
  file_->replace([&](const GrowingFile::Put& put) {
    put(fmt::format("{}\n", fmt::join(columns_, ",")));
    const auto put_rows = [&](LineReader& lines) {
      while (const auto line = lines.next()) {
        put(line->text);
        const auto fields = static_cast<std::size_t>(std::ranges::count(line->text, ',')) + 1;
        put(std::string(columns_.size() - std::min(fields, columns_.size()), ',') + '\n');
      }
    };
    LineReader in_file(open_own_file(path_, OwnFile::read), path_), in_memory(file_->waiting());
    if (columns_in_file_ > 0) in_file.next();  // the old header
    put_rows(in_file);
    put_rows(in_memory);
  });
  columns_in_file_ = columns_.size();
}

void StepTable::make_anew_if_removed() {
  if (file_->is_there()) return;
  GrowingFile made(path_, OwnFile::make);
  made.append(file_->waiting());
  written_ = {};
  if (file_->waiting().empty()) added_ = {};
  *file_ = std::move(made);
  columns_in_file_ = 0;
}

void StepTable::flush() {
  make_anew_if_removed();
  if (columns_in_file_ < columns_.size()) widen();
  file_->flush();
  written_ = added_;
}

void StepTable::sync() const {
  file_->sync();
}

}  // namespace tasuki
