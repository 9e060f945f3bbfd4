// The texts of --print-config and of listings.

#include <algorithm>

#include "core/printable.hpp"
#include "core/version.hpp"
#include "program/flags/config_file.hpp"
#include "program/flags/options.hpp"
#include "program/flags/options_builtin.hpp"

namespace tasuki::program {
namespace {

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
