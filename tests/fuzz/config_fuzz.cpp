// INI files of settings: each name and value is read back from what quote_config_value() writes.
#include "fuzz.hpp"
#include "program/flags/config_file.hpp"

using namespace tasuki;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::as_text(std::as_bytes(std::span(data, size)));
  std::vector<program::ConfigLine> lines;
  if (!fuzz::accepts([&] { lines = program::parse_config(text, "run.ini"); })) return 0;

  std::string written = "# As in a file: a byte order mark belongs to no name behind this line.\n";
  int last = 0;
  for (const program::ConfigLine& line : lines) {
    fuzz::require(line.number > last, "lines are not numbered in order");
    last = line.number;
    written += line.name + " = " + program::quote_config_value(line.value) + "\n";
  }
  const auto again = program::parse_config(written, "again.ini");
  fuzz::require(again.size() == lines.size(), "settings are lost when they are written");
  for (std::size_t i = 0; i < lines.size(); ++i)
    fuzz::require(
        again[i].name == lines[i].name && again[i].value == lines[i].value,
        fmt::format("'{}' = '{}' changes when it is written", lines[i].name, lines[i].value));
  return 0;
}
