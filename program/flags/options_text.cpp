// The texts of --help and --print-config.

#include <algorithm>
#include <sstream>

#include "tasuki/core/printable.hpp"
#include "tasuki/core/terminal.hpp"
#include "tasuki/core/version.hpp"
#include "tasuki/program/flags/config_file.hpp"
#include "tasuki/program/flags/options.hpp"
#include "tasuki/program/flags/options_builtin.hpp"
#include "tasuki/program/start/version.hpp"

namespace tasuki::program {
namespace {

constexpr std::size_t help_column = 30;

std::string flag_text(char letter, std::string_view name, std::string_view value_name,
                      bool value_may_miss) {
  std::string text =
      letter ? fmt::format("  -{}, --{}", letter, name) : fmt::format("      --{}", name);
  if (!value_name.empty())
    text += value_may_miss ? fmt::format(" [{}]", value_name) : fmt::format(" {}", value_name);
  return text;
}

// `text` wrapped into the column that begins at help_column.
std::string in_column(std::string left, const std::string& text) {
  if (left.size() + 2 > help_column)
    left += '\n' + std::string(help_column, ' ');
  else
    left.resize(help_column, ' ');
  std::size_t used = help_column;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (used + word.size() + 1 > usual_width) {
      left += '\n' + std::string(help_column, ' ');
      used = help_column;
    }
    if (used > help_column) left += ' ';
    left += word;
    used += word.size() + 1;
  }
  return left + '\n';
}

const char* describe(Source source) {
  switch (source) {
    case Source::standard:
      return "default";
    case Source::snapshot:
      return "snapshot";
    case Source::file:
      return "file";
    case Source::command_line:
      return "command line";
  }
  return "";
}

}  // namespace

std::string Options::help_text() const {
  std::string text =
      wrap_lines(fmt::format("{}: {}\n", program_, purpose_), usual_width) +
      fmt::format("\nusage: {} [flags]{}\n       {}\n", program_, operands_, example_);
  std::string group;
  for (const Option& option : options_) {
    if (option.group != group) text += fmt::format("\n{}:\n", group = option.group);
    const bool is_switch = option.value_name.empty();
    std::string help = option.help;
    const char* separator = "; also ";
    for (const Alias& alias : aliases_) {
      if (alias.flag != option.name) continue;
      help += fmt::format("{}{}{}", separator, alias.name.size() == 1 ? "-" : "--", alias.name);
      separator = ", ";
    }
    if (!is_switch) help += fmt::format(" (default: {})", option.standard);
    text += in_column(
        flag_text(option.letter, option.name, option.value_name, !option.implicit.empty()), help);
  }
  text += "\nSettings and help:\n";
  for (const builtin::Flag& flag : builtin::flags)
    text += in_column(flag_text(flag.letter, flag.name, flag.value_name, false),
                      std::string(flag.help));
  return text;
}

std::string Options::config_text() const {
  std::vector<std::string> lines;
  std::size_t width = 0;
  for (const Option& option : options_) {
    lines.push_back(fmt::format("{} = {}", option.name, quote_config_value(option.get())));
    width = std::max(width, lines.back().size());
  }
  std::string text =
      fmt::format("# {} {}; read back with --config FILE\n", program_, tasuki::version());
  std::string group;
  for (std::size_t i = 0; i < options_.size(); ++i) {
    if (options_[i].group != group) text += fmt::format("\n# {}\n", group = options_[i].group);
    text += fmt::format("{:<{}}  # {}", lines[i], width, describe(options_[i].source));
    if (options_[i].source == Source::file) text += " " + printable(config_);
    text += '\n';
  }
  return text;
}

std::string Options::listing_text() const {
  std::string text;
  for (const Option& option : options_)
    if (option.is_listing_wanted) text += option.listing();
  return text;
}

std::string Options::text(Request request) const {
  switch (request) {
    case Request::run:
      return "";
    case Request::help:
      return help_text();
    case Request::version:
      return version_text(program_);
    case Request::print_config:
      return config_text();
    case Request::listing:
      return listing_text();
  }
  return "";
}

}  // namespace tasuki::program
