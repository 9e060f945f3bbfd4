// The command line, split into flags and values by Boost.Program_options.

#include <algorithm>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>

#include "tasuki/program/flags/nearest.hpp"
#include "tasuki/program/flags/options.hpp"
#include "tasuki/program/flags/options_builtin.hpp"

namespace tasuki::program {
namespace {

namespace po = boost::program_options;

std::string boost_names(std::string_view name, char letter) {
  return letter ? fmt::format("{},{}", name, letter) : std::string(name);
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
  for (const Option& option : options) {
    auto* value = po::value<std::string>();
    if (!option.implicit.empty()) value->implicit_value(option.implicit);
    described.add_options()(boost_names(option.name, option.letter).c_str(), value, "");
  }
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

std::vector<std::string> flags_as_typed(const std::vector<Option>& options) {
  std::vector<std::string> names;
  names.reserve(options.size() + builtin::flags.size());
  for (const Option& option : options) names.push_back(option.name);
  for (const builtin::Flag& flag : builtin::flags) names.emplace_back(flag.name);
  return names;
}

[[noreturn]] void fail_unknown(const std::string& token, const std::vector<Option>& options) {
  const std::string typed = token.substr(0, token.find('='));
  const auto name_begin = std::min(typed.find_first_not_of('-'), typed.size());
  const std::string meant = nearest(typed.substr(name_begin), flags_as_typed(options));
  fail_everywhere(ErrorKind::usage, "unknown flag {}{} (--help lists all flags)", typed,
                  meant.empty() ? "" : "; did you mean --" + meant + "?");
}

// Chainer's programs have flags such as --gen_model, which mean the same here as --gen-model.
std::vector<std::string> with_dashes(std::vector<std::string> arguments,
                                     const std::vector<Option>& options) {
  for (std::string& argument : arguments) {
    if (argument == "--") break;  // what follows are no flags
    if (!argument.starts_with("--")) continue;
    std::string name = argument.substr(2, argument.find('=') - 2);
    std::ranges::replace(name, '_', '-');
    if (std::ranges::find(options, name, &Option::name) != options.end())
      argument.replace(2, name.size(), name);
  }
  return arguments;
}

}  // namespace

std::vector<Options::Given> Options::from_command_line(
    const std::vector<std::string>& arguments) const {
  namespace style = po::command_line_style;
  const po::options_description described = describe_to_boost(options_);
  std::vector<po::option> parsed;
  try {
    parsed = po::command_line_parser(with_dashes(arguments, options_))
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
      fail_everywhere(ErrorKind::usage, "{} does not take a value", name);
    fail_everywhere(ErrorKind::usage, "{} needs a value (--help describes it)", name);
  } catch (const po::error& error) {
    fail_everywhere(ErrorKind::usage, "{} (--help lists all flags)", error.what());
  }

  std::vector<Given> given;
  for (const po::option& one : parsed) {
    if (one.unregistered) fail_unknown(one.original_tokens.at(0), options_);
    if (one.string_key.empty())
      fail_everywhere(ErrorKind::usage, "unexpected argument '{}': {} takes flags only",
                      one.value.empty() ? "" : one.value[0], program_);
    std::string value = one.value.empty() ? "" : one.value[0];
    if (one.value.empty())
      for (const Option& option : options_)
        if (option.name == one.string_key) value = option.implicit;
    given.push_back({one.string_key, value, "--" + one.string_key});
  }
  return given;
}

}  // namespace tasuki::program
