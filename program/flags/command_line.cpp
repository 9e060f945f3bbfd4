// The command line, split into flags and values by Boost.Program_options.

#include <algorithm>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>

#include "core/printable.hpp"
#include "program/flags/option_value.hpp"
#include "program/flags/options.hpp"
#include "program/flags/options_builtin.hpp"

namespace tasuki::program {
namespace {

namespace po = boost::program_options;

std::string boost_names(std::string_view name, char letter) {
  return letter ? fmt::format("{},{}", name, letter) : std::string(name);
}

// Tells Boost about a flag that is called by `names`.
void describe_to_boost(const Option& option, const std::string& names,
                       po::options_description& described) {
  auto* value = po::value<std::string>();
  if (!option.implicit.empty()) value->implicit_value(option.implicit);
  described.add_options()(names.c_str(), value, "");
}

po::options_description describe_to_boost(const std::vector<Option>& options) {
  po::options_description described;
  for (const builtin::Flag& flag : builtin::flags) {
    const std::string names = boost_names(flag.name, flag.letter);
    if (flag.value_name.empty()) {
      described.add_options()(names.c_str(), "");
      continue;
    }
    auto* value = po::value<std::string>();
    if (flag.value_may_miss) value->implicit_value("");
    described.add_options()(names.c_str(), value, "");
  }
  for (const Option& option : options)
    describe_to_boost(option, boost_names(option.name, option.letter), described);
  return described;
}

// The name of the flag that `word` calls, if its value may miss; empty for other words.
std::string flag_that_may_stand_alone(const std::vector<Option>& options, const std::string& word) {
  const auto is_called = [&word](std::string_view name, char letter) {
    return word == fmt::format("--{}", name) || (letter && word == std::string{'-', letter});
  };
  for (const builtin::Flag& flag : builtin::flags)
    if (flag.value_may_miss && is_called(flag.name, flag.letter)) return std::string(flag.name);
  for (const Option& option : options)
    if (!option.implicit.empty() && !option.value_name.empty() &&
        is_called(option.name, option.letter))
      return option.name;
  return "";
}

// `--gpu 1` and `-g 1`: Boost accepts the value of a flag that may stand alone only as `--gpu=1`.
// No program has positional arguments, so a word that follows can only be that value.
std::vector<po::option> take_separate_value(const std::vector<Option>& options,
                                            std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments[1].empty() || arguments[1].front() == '-') return {};
  const std::string name = flag_that_may_stand_alone(options, arguments[0]);
  if (name.empty()) return {};
  po::option taken(name, {arguments[1]});
  arguments.erase(arguments.begin(), arguments.begin() + 2);
  return {taken};
}

// "--help epoch" for the flag "--epoch". The syntax errors of Boost may name a letter.
std::string help_about(const std::string& flag) {
  return flag.starts_with("--") ? fmt::format("--help {}", printable(flag.substr(2)))
                                : "--help all";
}

}  // namespace

std::string Options::did_you_mean(const std::string& typed) const {
  std::vector<std::string> known = names();
  for (const builtin::Flag& flag : builtin::flags) known.emplace_back(flag.name);
  const auto name_begin = std::min(typed.find_first_not_of('-'), typed.size());
  const std::string meant = nearest(typed.substr(name_begin), known);
  return meant.empty() ? "" : fmt::format("; did you mean --{}?", meant);
}

void Options::fail_unknown(const std::string& token) const {
  const std::string typed = token.substr(0, token.find('='));
  // If a program has operands, flags must come before them.
  fail_everywhere(
      ErrorKind::usage, "unknown flag {}{} (--help all lists all flags{})", printable(typed),
      did_you_mean(typed),
      operands_.empty() ? "" : fmt::format("; usage: {} [flags]{}", program_, operands_));
}

std::vector<Options::Given> Options::from_command_line(
    const std::vector<std::string>& arguments) const {
  namespace style = po::command_line_style;
  po::options_description described = describe_to_boost(options_);
  for (const Alias& alias : aliases_) {
    const Option* const option = find(alias.flag);
    const bool is_letter = alias.name.size() == 1;
    TASUKI_CHECK(option && (is_letter ? std::ranges::find(options_, alias.name[0],
                                                          &Option::letter) == options_.end()
                                      : !find(alias.name)),
                 "{} as another name of --{}: expected an unused name of a flag that exists",
                 alias.name, alias.flag);
    describe_to_boost(*option, is_letter ? "," + alias.name : alias.name, described);
  }
  std::vector<std::string> dashed = arguments;
  for (std::string& argument : dashed) {
    if (argument == "--") break;  // what follows is not a flag
    if (!argument.starts_with("--")) continue;
    const std::string name = argument.substr(2, argument.find('=') - 2);
    argument.replace(2, name.size(), with_dashes(name));
  }
  std::vector<po::option> parsed;
  try {
    parsed = po::command_line_parser(dashed)
                 .options(described)
                 .style(style::unix_style & ~style::allow_guessing)
                 .extra_style_parser([this](std::vector<std::string>& rest) {
                   return take_separate_value(options_, rest);
                 })
                 .allow_unregistered()
                 .run()
                 .options;
  } catch (const po::invalid_command_line_syntax& error) {
    const std::string name = error.get_option_name();
    if (error.kind() == po::invalid_syntax::extra_parameter)
      fail_everywhere(ErrorKind::usage, "{} does not take a value", printable(name));
    fail_everywhere(ErrorKind::usage, "{} needs a value ({} describes it)", printable(name),
                    help_about(name));
  } catch (const po::error& error) {
    fail_everywhere(ErrorKind::usage, "{} (--help all lists all flags)", printable(error.what()));
  }

  std::vector<Given> given;
  for (const po::option& one : parsed) {
    if (one.unregistered) fail_unknown(one.original_tokens.at(0));
    if (one.string_key.empty())
      fail_everywhere(ErrorKind::usage, "unexpected argument '{}': {} takes flags only",
                      one.value.empty() ? "" : printable(one.value[0]), program_);
    // Boost's key of a flag without a long name is "-j".
    const bool is_letter = one.string_key.starts_with('-');
    Given found = without_alias({one.string_key.substr(is_letter ? 1 : 0),
                                 one.value.empty() ? "" : one.value[0],
                                 (is_letter ? "" : "--") + one.string_key});
    if (one.value.empty())
      if (const Option* const option = find(found.name)) found.value = option->implicit;
    given.push_back(std::move(found));
  }
  return given;
}

}  // namespace tasuki::program
