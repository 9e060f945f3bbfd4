// The pages that --help writes for other programs: a manual page, and completion for bash.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <sstream>

#include "core/printable.hpp"
#include "core/version.hpp"
#include "program/flags/options.hpp"
#include "program/flags/options_builtin.hpp"

namespace tasuki::program {
namespace {

// --- the manual page, in the macros of man(7) ---

// Text in which nothing is a command: hyphens stay those of flags, quotes stay straight.
std::string roff(std::string_view text) {
  std::string safe;
  for (const char c : text) switch (c) {
      case '\\':
        safe += "\\e";
        break;
      case '-':
        safe += "\\-";
        break;
      case '\'':
        safe += "\\(aq";
        break;
      case '`':
        safe += "\\(ga";
        break;
      case '^':
        safe += "\\(ha";
        break;
      case '~':
        safe += "\\(ti";
        break;
      default:
        safe += c;
    }
  return safe;
}

// A paragraph in lines of a usual length, which begins with `line`. No word at the start of a line
// is taken for a request.
std::string paragraph(const std::string& text, std::string line = "") {
  std::string lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string safe = roff(word);
    if (line.size() + safe.size() > 76) {
      lines += line + '\n';
      line.clear();
    }
    if (line.empty() && safe.starts_with('.')) safe.insert(0, "\\&");
    line += (line.empty() ? "" : " ") + safe;
  }
  return lines + line + '\n';
}

std::string bold(std::string_view text) {
  return "\\fB" + roff(text) + "\\fR";
}

std::string italic(std::string_view text) {
  return "\\fI" + roff(text) + "\\fR";
}

// Lines as they are, in which blanks count.
std::string verbatim(const std::string& text) {
  std::string lines = ".nf\n";
  std::istringstream source(text);
  for (std::string line; std::getline(source, line);) lines += "\\&" + roff(line) + '\n';
  return lines + ".fi\n";
}

// Of SOURCE_DATE_EPOCH, by which builds can be repeated, or today.
std::string date_of_page() {
  const char* const epoch = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t now = epoch != nullptr
                              ? static_cast<std::time_t>(std::strtoll(epoch, nullptr, 10))
                              : std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

std::string with_value(const Option& option) {
  if (option.value_name.empty()) return "";
  return option.implicit.empty() ? ' ' + italic(option.value_name)
                                 : " [" + italic(option.value_name) + ']';
}

std::string title_of(const Option& option) {
  const std::string name = bold("--" + option.name) + with_value(option);
  return option.letter ? bold(fmt::format("-{}", option.letter)) + ", " + name : name;
}

// --- completion ---

// "_tasuki_predict"; names of functions have no hyphens in every bash.
std::string function_name(std::string program) {
  std::ranges::replace_if(
      program, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return "_" + program;
}

std::string quoted(const std::string& text) {
  std::string safe = "'";
  for (const char c : text) safe += c == '\'' ? "'\\''" : std::string(1, c);
  return safe + '\'';
}

// What completes the value of a flag: words, and files or folders where the value is one.
std::string completion_of(const Option& option) {
  std::vector<std::string> words = option.choices;
  if (option.listing) words.emplace_back("help");
  std::string command;
  if (!words.empty()) command = fmt::format("words={}", quoted(join(words, " ")));
  const std::string& value = option.value_name;
  const auto add = [&](const char* kind) {
    command += fmt::format("{}paths={}", command.empty() ? "" : "; ", kind);
  };
  if (value == "DIR" || value == "FOLDER") add("-d");
  if (value == "FILE" || value == "PATH" || option.may_be_file) add("-f");
  return command.empty() ? ":" : command;
}

// In which "@...@" are replaced. A value may follow "=", at which bash splits words.
constexpr const char* completion_frame =
    R"(# bash completion for @PROGRAM@, made by `@PROGRAM@ --help bash`.
@FUNCTION@() {
  local current=${COMP_WORDS[COMP_CWORD]} flag= words= paths= word i
  COMPREPLY=()
@OPERAND@  if [[ $current == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-1]} current=
  elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]}
  elif ((COMP_CWORD > 1)); then
    flag=${COMP_WORDS[COMP_CWORD-1]}
    # These take a value only after "=".
    case $flag in
      @SWITCHES@) flag= ;;
    esac
    # Values of these may miss.
    case $flag in
      @OPTIONAL@) [[ $current != -* ]] || flag= ;;
    esac
  fi
  case $flag in
@VALUES@    *) words='@FLAGS@'@COMMANDS@ ;;
  esac
  while read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$words" -- "$current")
  if [[ $paths ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen $paths -- "$current")
  fi
}
complete -F @FUNCTION@ @PROGRAM@
)";

// Of a program that starts another one: that one's own completion follows its name. `-np` is
// mpirun's name of a flag.
constexpr const char* operand_frame = R"(  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    case $word in
      --) ((++i)); break ;;
      -np | @TAKING@) ((++i)) ;;
      -* | =) ;;
      *) [[ ${COMP_WORDS[i-1]} == = ]] || break ;;
    esac
  done
  if ((i < COMP_CWORD)) && declare -F _command_offset >/dev/null; then
    _command_offset $i
    return
  fi
)";

std::string replaced(std::string text, const std::string& mark, const std::string& by) {
  const std::string name = '@' + mark + '@';
  for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + by.size()))
    text.replace(at, name.size(), by);
  return text;
}

std::string or_nothing(const std::vector<std::string>& patterns) {
  return patterns.empty() ? "''" : join(patterns, " | ");
}

}  // namespace

std::string Options::manual_page() const {
  std::string upper = program_;
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string page =
      fmt::format(".\\\" Made by `{} --help man`.\n.TH {} 1 {} \"Tasuki {}\" \"User Commands\"\n",
                  program_, roff(upper), date_of_page(), roff(tasuki::version()));
  page += ".SH NAME\n" + paragraph(purpose_, roff(program_) + " \\-");
  page +=
      fmt::format(".SH SYNOPSIS\n{} [{}]{}\n", bold(program_), italic("flags"), roff(operands_));
  page += ".SH DESCRIPTION\n" + paragraph(purpose_ + ".", bold(program_));
  page += ".SH EXAMPLE\n" + verbatim(example_);
  page += ".SH OPTIONS\n";
  std::string group;
  for (const Option& option : flags_to_describe()) {
    if (option.group != group) page += fmt::format(".SS \"{}\"\n", roff(group = option.group));
    page += fmt::format(".TP\n{}\n{}", title_of(option), paragraph(option.help));
    if (!option.value_name.empty() && !option.standard.empty())
      page += paragraph(fmt::format("(default: {})", option.standard));
  }
  if (!appendix_.empty()) page += ".SH NOTES\n" + verbatim(appendix_);
  if (program_ != "tasuki-run") page += ".SH SEE ALSO\n.BR tasuki\\-run (1)\n";
  return page;
}

std::string Options::bash_completion() const {
  std::vector<std::string> flags, switches, optional, taking;
  std::string values;
  for (const builtin::Flag& flag : builtin::flags) flags.push_back(fmt::format("--{}", flag.name));
  const auto names_of = [&](const Option& option) {
    std::vector<std::string> names = {"--" + option.name};
    if (option.letter) names.push_back(fmt::format("-{}", option.letter));
    for (const Alias& alias : aliases_)
      if (alias.flag == option.name)
        names.push_back((alias.name.size() == 1 ? "-" : "--") + alias.name);
    return names;
  };
  for (Option option : flags_to_describe()) {
    const bool is_builtin = find(option.name) == nullptr;
    if (!is_builtin) flags.push_back("--" + option.name);
    if (option.name == builtin::help) option.choices = {"all", "man", "bash"};
    const bool is_switch = option.value_name.empty();
    const std::vector<std::string> names = names_of(option);
    std::vector<std::string>& kind = is_switch                 ? switches
                                     : option.implicit.empty() ? taking
                                                               : optional;
    kind.insert(kind.end(), names.begin(), names.end());
    if (is_switch && is_builtin) continue;
    values += fmt::format("    {}) {} ;;\n", join(names, " | "), completion_of(option));
  }
  const bool starts_programs = operands_.starts_with(" PROGRAM");
  std::string text = replaced(completion_frame, "OPERAND", starts_programs ? operand_frame : "");
  // The program itself is completed as a command.
  text = replaced(text, "COMMANDS", starts_programs ? "; [[ $current == -* ]] || paths=-c" : "");
  text = replaced(text, "TAKING", or_nothing(taking));
  text = replaced(text, "SWITCHES", or_nothing(switches));
  text = replaced(text, "OPTIONAL", or_nothing(optional));
  text = replaced(text, "VALUES", values);
  text = replaced(text, "FLAGS", join(flags, " "));
  text = replaced(text, "FUNCTION", function_name(program_));
  return replaced(text, "PROGRAM", program_);
}

}  // namespace tasuki::program
