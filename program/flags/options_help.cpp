// The texts of --help: a screen, all flags, or those that a word finds.

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "core/printable.hpp"
#include "core/terminal.hpp"
#include "program/flags/options.hpp"
#include "program/flags/options_builtin.hpp"

namespace tasuki::program {
namespace {

constexpr std::size_t help_column = 30;
constexpr std::ptrdiff_t screen_lines = 40;

// "  -b, --batchsize N"
std::string flag_text(const Option& option) {
  std::string text = option.letter ? fmt::format("  -{}, --{}", option.letter, option.name)
                                   : fmt::format("      --{}", option.name);
  if (option.value_name.empty()) return text;
  return text + (option.implicit.empty() ? fmt::format(" {}", option.value_name)
                                         : fmt::format(" [{}]", option.value_name));
}

// Empty for flags without a default, and for a default that is an empty text.
std::string default_text(const Option& option) {
  if (option.value_name.empty() || option.standard.empty()) return "";
  return fmt::format(" (default: {})", option.standard);
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

std::string first_clause(std::string_view help) {
  std::size_t end = help.size();
  for (const std::string_view mark : {"; ", ". ", ": ", " ("}) end = std::min(end, help.find(mark));
  return std::string(help.substr(0, end));
}

// As many whole words of `text` as fit into `room` characters.
std::string shortened(const std::string& text, std::size_t room) {
  constexpr std::string_view rest = " ...";
  if (text.size() <= room) return text;
  return text.substr(0, text.rfind(' ', room - rest.size())).append(rest);
}

// A flag on one line. A default that does not fit is left out.
std::string screen_line(const Option& option) {
  std::string line = flag_text(option);
  line.resize(std::max(help_column, line.size() + 2), ' ');
  const std::size_t room = usual_width - std::min(line.size(), usual_width / 2);
  line += shortened(option.summary.empty() ? first_clause(option.help) : option.summary, room);
  const std::string standard = default_text(option);
  if (line.size() + standard.size() <= usual_width) line += standard;
  return line + '\n';
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// A group's title without the explanation in parentheses.
std::string group_name(const Option& option) {
  return option.group.substr(0, option.group.find(" ("));
}

bool contains(const std::string& text, const std::string& word) {
  return lower_case(text).find(lower_case(word)) != std::string::npos;
}

bool mentions(const Option& option, const std::string& word) {
  const std::string text =
      fmt::format("{}\n--{}\n{}", group_name(option), option.name, option.help);
  std::string dashed = word;  // as flags may be written
  std::ranges::replace(dashed, '_', '-');
  return contains(text, word) || contains(text, "--" + dashed);
}

std::vector<Option> mentioning(const std::string& word, std::vector<Option> options) {
  std::erase_if(options, [&](const Option& option) { return !mentions(option, word); });
  return options;
}

std::vector<std::string> group_names(const std::vector<Option>& options) {
  std::vector<std::string> names;
  for (const Option& option : options)
    if (!option.group.empty() && (names.empty() || names.back() != group_name(option)))
      names.push_back(group_name(option));
  return names;
}

// The flags under the titles of their groups, each as `describe` says.
template <class Describe>
std::string in_groups(const std::vector<Option>& options, const Describe& describe) {
  std::string text, group;
  for (const Option& option : options) {
    if (option.group != group) text += fmt::format("\n{}:\n", group = option.group);
    text += describe(option);
  }
  return text;
}

std::string in_full(const std::vector<Option>& options) {
  return in_groups(options, [](const Option& option) {
    return in_column(flag_text(option), option.help + default_text(option));
  });
}

bool asks_for_all(const std::string& word) {
  return lower_case(word) == "all";
}

bool asks_for_page(const std::string& word) {
  return word == "man" || word == "bash";
}

}  // namespace

std::string Options::help_head() const {
  return wrap_lines(fmt::format("{}: {}\n", program_, purpose_), usual_width) +
         fmt::format("\nusage: {} [flags]{}\n       {}\n", program_, operands_, example_);
}

std::vector<Option> Options::flags_to_describe() const {
  std::vector<Option> all = options_;
  for (Option& option : all) {
    const char* separator = "; also ";
    for (const Alias& alias : aliases_) {
      if (alias.flag != option.name) continue;
      option.help +=
          fmt::format("{}{}{}", separator, alias.name.size() == 1 ? "-" : "--", alias.name);
      separator = ", ";
    }
  }
  for (const builtin::Flag& flag : builtin::flags) {
    Option option;
    option.name = flag.name;
    option.letter = flag.letter;
    option.value_name = flag.value_name;
    option.help = flag.help;
    option.group = "Settings and help";
    option.on_screen = OnScreen::no;
    if (flag.value_may_miss) option.implicit = "none";
    all.push_back(std::move(option));
  }
  return all;
}

void Options::check_help_word() const {
  if (help_word_.empty() || asks_for_all(help_word_) || asks_for_page(help_word_) ||
      contains(appendix_, help_word_) || !mentioning(help_word_, flags_to_describe()).empty())
    return;
  fail_everywhere(ErrorKind::usage, "--help: no flag mentions '{}'{} (--help all lists all flags)",
                  printable(help_word_), did_you_mean(help_word_));
}

std::string Options::help_on_screen() const {
  const std::vector<Option> all = flags_to_describe();
  std::vector<Option> own, common;
  for (const Option& option : all) {
    if (option.on_screen == OnScreen::in_group) own.push_back(option);
    if (option.on_screen == OnScreen::as_common) common.push_back(option);
  }
  for (Option& option : common) option.group = "Common flags";
  const std::string more = fmt::format(
      "\nMore: --help all (every flag in full), --help WORD (flags with WORD in their name, text "
      "or group: {})\n",
      join(group_names(all), ", "));
  return help_head() + in_groups(own, screen_line) + in_groups(common, screen_line) +
         wrap_lines(more, usual_width);
}

std::string Options::help_text() const {
  if (asks_for_page(help_word_)) return help_word_ == "man" ? manual_page() : bash_completion();
  const std::string appendix = appendix_.empty() ? "" : '\n' + appendix_;
  if (!help_word_.empty() && !asks_for_all(help_word_)) {
    std::string text = in_full(mentioning(help_word_, flags_to_describe()));
    if (contains(appendix_, help_word_)) text += appendix;
    return text.substr(text.find_first_not_of('\n'));
  }
  const std::string all = help_head() + in_full(flags_to_describe()) + appendix;
  const bool is_short = std::ranges::count(all, '\n') <= screen_lines;
  return is_short || asks_for_all(help_word_) ? all : help_on_screen() + appendix;
}

}  // namespace tasuki::program
