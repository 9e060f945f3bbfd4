// The command line, split into flags and values by Boost.Program_options.

#include <algorithm>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>

#include "tasuki/core/printable.hpp"
#include "tasuki/program/flags/nearest.hpp"
#include "tasuki/program/flags/options.hpp"
#include "tasuki/program/flags/options_builtin.hpp"

namespace tasuki::program {
namespace {

namespace po = boost::program_options;

std::string boost_names(std::string_view name, char letter) {
  return letter ? fmt::format("{},{}", name, letter) : std::string(name);
}

// What Boost has to know of a flag that is called by `names`.
void describe_to_boost(const Option& option, const std::string& names,
                       po::options_description& described) {
  auto* value = po::value<std::string>();
  if (!option.implicit.empty()) value->implicit_value(option.implicit);
  described.add_options()(names.c_str(), value, "");
}

po::options_description describe_to_boost(const std::vector<Option>& options) {
  po::options_description described;
  for (const builtin::Flag& flag : builtin::flags) {
    if (flag.value_name.empty())
      described.add_options()(boost_names(flag.name, flag.letter).c_str(), "");
    else
      described.add_options()(boost_names(flag.name, flag.letter).c_str(), po::value<std::string>(),
                              "");
  }
  for (const Option& option : options)
    describe_to_boost(option, boost_names(option.name, option.letter), described);
  return described;
}

// `--gpu 1` and `-g 1`: Boost accepts the value of a flag that may stand alone only as `--gpu=1`.
// No program has positional arguments, so a word that follows can only be that value.
std::vector<po::option> take_separate_value(const std::vector<Option>& options,
                                            std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments[1].empty() || arguments[1].front() == '-') return {};
  for (const Option& option : options) {
    const bool may_stand_alone = !option.implicit.empty() && !option.value_name.empty();
    const bool named = arguments[0] == "--" + option.name ||
                       (option.letter && arguments[0] == std::string{'-', option.letter});
    if (!may_stand_alone || !named) continue;
    po::option taken(option.name, {arguments[1]});
    arguments.erase(arguments.begin(), arguments.begin() + 2);
    return {taken};
  }
  return {};
}

// `usage`: what the command line looks like, if flags have to stand at their place in it.
[[noreturn]] void fail_unknown(const std::string& token, std::vector<std::string> names,
                               const std::string& usage) {
  for (const builtin::Flag& flag : builtin::flags) names.emplace_back(flag.name);
  const std::string typed = token.substr(0, token.find('='));
  const auto name_begin = std::min(typed.find_first_not_of('-'), typed.size());
  const std::string meant = nearest(typed.substr(name_begin), names);
  fail_everywhere(ErrorKind::usage, "unknown flag {}{} (--help lists all flags{})",
                  printable(typed), meant.empty() ? "" : "; did you mean --" + meant + "?",
                  usage.empty() ? "" : "; usage: " + usage);
}

}  // namespace

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
    if (argument == "--") break;  // what follows are no flags
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
    fail_everywhere(ErrorKind::usage, "{} needs a value (--help describes it)", printable(name));
  } catch (const po::error& error) {
    fail_everywhere(ErrorKind::usage, "{} (--help lists all flags)", printable(error.what()));
  }

  std::vector<Given> given;
  for (const po::option& one : parsed) {
    if (one.unregistered)
      fail_unknown(one.original_tokens.at(0), names(),
                   operands_.empty() ? "" : program_ + " [flags]" + operands_);
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
