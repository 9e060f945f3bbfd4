#include "program/flags/options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "core/printable.hpp"
#include "program/flags/config_file.hpp"
#include "program/flags/option_value.hpp"
#include "program/flags/options_builtin.hpp"

namespace tasuki::program {
namespace {

// An option that the word `absent` resets and any other text sets to the result of `parse`.
template <class T, class Parse>
Option optional_option(std::optional<T>& value, const std::string& absent, Parse parse,
                       const std::function<std::string(const T&)>& write) {
  Option option;
  option.set = [&value, absent, parse](const std::string& text) {
    if (text == absent) {
      value.reset();
      return;
    }
    try {
      value = parse(text);
    } catch (const std::invalid_argument& expected) {
      throw std::invalid_argument(fmt::format("{}, or '{}'", expected.what(), absent));
    }
  };
  option.get = [&value, absent, write] { return value ? write(*value) : absent; };
  option.choices = {absent};
  return option;
}

Option described(Option option, const std::string& value_name, const std::string& help) {
  option.value_name = value_name;
  option.help = help;
  return option;
}

}  // namespace

Option& Option::common(const std::string& text) {
  if (on_screen == OnScreen::no) on_screen = OnScreen::as_common;
  return in_short(text);
}

Option& Option::in_short(const std::string& text) {
  summary = text;
  return *this;
}

Option& Option::words_or_file(std::vector<std::string> words) {
  choices = std::move(words);
  may_be_file = true;
  return *this;
}

Options::Options(std::string program, std::string purpose, std::string example)
    : program_(std::move(program)), purpose_(std::move(purpose)), example_(std::move(example)) {}

Option& Options::add(const std::string& names, Option option) {
  const auto comma = names.find(',');
  option.name = names.substr(0, comma);
  if (comma != std::string::npos) option.letter = names.at(comma + 1);
  TASUKI_CHECK(!find(option.name), "flag --{} is added twice", option.name);
  option.group = group_;
  option.on_screen = group_on_screen_;
  option.standard = option.get();
  return options_.emplace_back(std::move(option));
}

Option& Options::add(const std::string& names, std::int64_t& value, IntegerRange range,
                     const std::string& value_name, const std::string& help) {
  Option option;
  option.set = [&value, range](const std::string& text) { value = parse_integer(text, range); };
  option.get = [&value] { return std::to_string(value); };
  return add(names, described(std::move(option), value_name, help));
}

Option& Options::add(const std::string& names, double& value, NumberRange range,
                     const std::string& value_name, const std::string& help) {
  Option option;
  option.set = [&value, range](const std::string& text) { value = parse_number(text, range); };
  option.get = [&value] { return to_text(value); };
  return add(names, described(std::move(option), value_name, help));
}

Option& Options::add(const std::string& names, std::string& value, const std::string& value_name,
                     const std::string& help) {
  Option option;
  option.set = [&value](const std::string& text) { value = text; };
  option.get = [&value] { return value; };
  return add(names, described(std::move(option), value_name, help));
}

Option& Options::add(const std::string& names, std::string& value,
                     const std::vector<std::string>& choices, const std::string& value_name,
                     const std::string& help) {
  Option option;
  option.choices = choices;
  option.set = [&value, choices](const std::string& text) { value = parse_choice(text, choices); };
  option.get = [&value] { return value; };
  return add(names, described(std::move(option), value_name, help));
}

Option& Options::add(const std::string& names, bool& value, const std::string& help) {
  Option option;
  option.implicit = "true";
  option.choices = {"true", "false"};
  option.set = [&value](const std::string& text) { value = parse_switch(text); };
  option.get = [&value] { return value ? "true" : "false"; };
  return add(names, described(std::move(option), "", help));
}

Option& Options::add(const std::string& names, std::vector<double>& values,
                     const std::string& absent, NumberRange range, const std::string& value_name,
                     const std::string& help) {
  Option option;
  option.choices = {absent};
  option.set = [&values, absent, range](const std::string& text) {
    values = text == absent ? std::vector<double>{} : parse_numbers(text, range, absent);
  };
  option.get = [&values, absent] {
    std::vector<std::string> texts(values.size());
    std::ranges::transform(values, texts.begin(), [](double value) { return to_text(value); });
    return values.empty() ? absent : join(texts, ",");
  };
  return add(names, described(std::move(option), value_name, help));
}

Option& Options::add(const std::string& names, std::optional<std::int64_t>& value,
                     const std::string& absent, IntegerRange range, const std::string& value_name,
                     const std::string& help) {
  const auto parse = [range](const std::string& text) { return parse_integer(text, range); };
  return add(names, described(optional_option<std::int64_t>(value, absent, parse,
                                                            [](const std::int64_t& number) {
                                                              return std::to_string(number);
                                                            }),
                              value_name, help));
}

Option& Options::add(const std::string& names, std::optional<double>& value,
                     const std::string& absent, NumberRange range, const std::string& value_name,
                     const std::string& help) {
  const auto parse = [range](const std::string& text) { return parse_number(text, range); };
  return add(names, described(optional_option<double>(value, absent, parse,
                                                      [](const double& x) { return to_text(x); }),
                              value_name, help));
}

Option& Options::add(const std::string& names, std::optional<std::string>& value,
                     const std::string& absent, const std::string& value_name,
                     const std::string& help) {
  const auto same = [](const std::string& text) { return text; };
  return add(names,
             described(optional_option<std::string>(value, absent, same, same), value_name, help));
}

void Options::alias(const std::string& flag, const std::vector<std::string>& names,
                    const std::map<std::string, std::string>& values) {
  for (const std::string& name : names) aliases_.push_back({name, flag, values});
}

const Options::Alias* Options::find_alias(const std::string& name) const {
  const auto found = std::ranges::find(aliases_, name, &Alias::name);
  return found == aliases_.end() ? nullptr : &*found;
}

std::string Options::with_dashes(const std::string& name) const {
  std::string dashed = name;
  std::ranges::replace(dashed, '_', '-');
  return find(dashed) != nullptr || find_alias(dashed) != nullptr ? dashed : name;
}

Options::Given Options::without_alias(Given given) const {
  if (const Alias* const alias = find_alias(given.name)) {
    given.name = alias->flag;
    if (const auto found = alias->values.find(given.value); found != alias->values.end())
      given.value = found->second;
  }
  return given;
}

Options::Request Options::parse(const std::vector<std::string>& arguments, const FileReader& read) {
  std::vector<Given> given = from_command_line(arguments);
  const auto take = [&given](std::string_view name) {
    std::optional<std::string> last;
    for (const Given& one : given)
      if (one.name == name) last = one.value;
    std::erase_if(given, [name](const Given& one) { return one.name == name; });
    return last;
  };
  request_ = Request::run;
  if (take(builtin::print_config)) request_ = Request::print_config;
  if (take(builtin::version)) request_ = Request::version;
  if (const auto word = take(builtin::help)) {
    request_ = Request::help;
    help_word_ = *word;
    check_help_word();
  }
  if (request_ == Request::version) return request_;
  const bool is_help = request_ == Request::help;
  const auto attempt = [is_help](const auto& set) {
    try {
      set();
    } catch (const Error&) {
      // A user who asks for help may have written something wrong: the help then shows the other
      // flags' defaults.
      if (!is_help) throw;
    }
  };
  if (const auto file = take(builtin::config)) {
    config_ = *file;
    attempt([&] {
      assign(from_file(read(config_), printable(config_)), Source::file, ErrorKind::config);
    });
  }
  for (const Given& one : given)
    attempt([&] { assign({one}, Source::command_line, ErrorKind::usage); });
  if (!is_help && is_listing_wanted()) return request_ = Request::listing;
  choose_defaults_();
  return request_;
}

void Options::set_default(const std::string& name, const std::string& text) {
  Option* option = find(name);
  TASUKI_CHECK(option, "there is no flag --{} to give a default", name);
  option->standard = text;
  if (option->source == Source::standard) option->set(text);
}

std::string Options::inherit(const std::string& name, const std::string& text) {
  Option* option = find(name);
  TASUKI_CHECK(option, "there is no flag --{} to inherit a value for", name);
  if (option->source != Source::standard) return option->get();
  try {
    option->set(text);
  } catch (const std::invalid_argument& expected) {
    fail_everywhere(ErrorKind::data, "--{} in the snapshot: expected {}, found '{}'", name,
                    expected.what(), text);
  }
  option->source = Source::snapshot;
  return option->get();
}

std::vector<Options::Given> Options::from_file(const std::string& text,
                                               const std::string& file) const {
  std::vector<Given> given;
  std::map<std::string, int> line_of;
  const std::vector<std::string> known = names();
  for (ConfigLine& line : parse_config(text, file)) {
    const std::string place = fmt::format("{}:{}: {}", file, line.number, line.name);
    const Given one = without_alias({with_dashes(line.name), std::move(line.value), place});
    if (!find(one.name)) {
      const std::string meant = nearest(line.name, known);
      fail_everywhere(ErrorKind::config, "{}:{}: no setting is called '{}'{}", file, line.number,
                      line.name, meant.empty() ? "" : "; did you mean '" + meant + "'?");
    }
    const auto [first, is_new] = line_of.emplace(one.name, line.number);
    if (!is_new)
      fail_everywhere(ErrorKind::config, "{} is set twice, first in line {}; keep one", place,
                      first->second);
    given.push_back(one);
  }
  return given;
}

void Options::assign(const std::vector<Given>& given, Source source, ErrorKind kind) {
  for (const Given& one : given) {
    Option* option = find(one.name);
    TASUKI_CHECK(option, "a flag that does not exist was accepted: {}", one.name);
    if (one.value.empty())
      fail_everywhere(kind, "{} needs a value{}", one.place,
                      option->value_name.empty() ? "" : ": " + option->value_name);
    if (one.value.find_first_of("\n\r\0", 0, 3) != std::string::npos)
      fail_everywhere(kind, "{}: expected one line of text, found a line break", one.place);
    option->source = source;
    option->is_listing_wanted = option->listing && one.value == "help";
    if (option->is_listing_wanted) continue;
    try {
      option->set(one.value);
    } catch (const std::invalid_argument& expected) {
      fail_everywhere(kind, "{}: expected {}, found '{}'", one.place, expected.what(), one.value);
    }
  }
}

bool Options::is_listing_wanted() const {
  return std::ranges::any_of(options_, &Option::is_listing_wanted);
}

std::vector<std::pair<std::string, std::string>> Options::values() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Option& option : options_) all.emplace_back(option.name, option.get());
  return all;
}

bool Options::is_changed(const std::string& name) const {
  const Option* option = find(name);
  TASUKI_CHECK(option, "there is no flag --{}", name);
  return option->get() != option->standard;
}

bool Options::is_given(const std::string& name) const {
  const Option* option = find(name);
  TASUKI_CHECK(option, "there is no flag --{}", name);
  return option->source == Source::file || option->source == Source::command_line;
}

const Option* Options::find(const std::string& name) const {
  const auto found = std::ranges::find(options_, name, &Option::name);
  return found == options_.end() ? nullptr : &*found;
}

Option* Options::find(const std::string& name) {
  return const_cast<Option*>(std::as_const(*this).find(name));
}

std::vector<std::string> Options::names() const {
  std::vector<std::string> all;
  for (const Option& option : options_) all.push_back(option.name);
  for (const Alias& alias : aliases_) all.push_back(alias.name);
  return all;
}

}  // namespace tasuki::program
