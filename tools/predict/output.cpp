#include "tools/predict/output.hpp"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/named_file.hpp"
#include "core/printable.hpp"
#include "core/terminal.hpp"

namespace tasuki::predict {
namespace {

void print(const std::string& unsafe, std::FILE* stream) {
  const std::string text = printable_lines(unsafe);
  if (std::fwrite(text.data(), 1, text.size(), stream) != text.size() || std::fflush(stream) != 0)
    fail(ErrorKind::cannot_write, "cannot write the results to standard output");
}

}  // namespace

std::string json_line(const nlohmann::ordered_json& value) {
  return json_text(value) + '\n';
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

void check_output(const PredictionSettings& settings) {
  if (!settings.out) return;
  const std::filesystem::path path = std::filesystem::absolute(*settings.out);
  if (std::filesystem::is_directory(status_of(path)))
    fail(ErrorKind::cannot_write, "--out {}: expected the name of a file, found a folder",
         *settings.out);
  check_output_folder(path.parent_path());
}

void deliver(const PredictionSettings& settings, const std::string& rows,
             const std::string& summary) {
  const bool prints_rows = !settings.out && !settings.quiet;
  if (settings.out) {
    make_output_folder(std::filesystem::absolute(*settings.out).parent_path());
    write_named_file(*settings.out, rows);
  }
  // Text for people fits a terminal.
  const auto fitted = [](const std::string& text, std::FILE* stream) {
    return wrap_lines(text, line_width(stream));
  };
  if (prints_rows) print(settings.format == Format::table ? fitted(rows, stdout) : rows, stdout);
  std::FILE* const place = prints_rows && settings.format == Format::csv ? stderr : stdout;
  print(settings.format == Format::json ? summary : fitted(summary, place), place);
}

void deliver(const PredictionSettings& settings, const Report& report) {
  switch (settings.format) {
    case Format::json:
      deliver(settings, report.json, report.json_summary);
      return;
    case Format::csv:
      deliver(settings, report.csv, report.summary);
      return;
    case Format::table:
      deliver(settings, report.table + '\n', report.summary);
  }
}

}  // namespace tasuki::predict
