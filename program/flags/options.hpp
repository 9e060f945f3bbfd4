// Options: the flags of a program, from the command line and from an INI file.
//
// A flag is bound to a variable, whose current value becomes the default. The command line
// overrides the file, the file a resumed run, and a resumed run the defaults. Names are never
// abbreviated. If a flag is repeated on the command line, the last value counts. Every value has a
// text, so `--config` can read back what `--print-config` writes. An error is one line with the
// flag (or file and line), what was expected and what was found; all ranks of a job get the same
// errors.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/file.hpp"
#include "program/flags/option_value.hpp"

namespace tasuki::program {

// Where a value came from.
enum class Source { standard, snapshot, file, command_line };

// Where the screen that --help prints shows a flag: below the title of its group, among the common
// flags, or nowhere.
enum class OnScreen { in_group, as_common, no };

struct Option {
  std::string name;        // "batchsize"
  char letter = 0;         // 'b', or 0
  std::string value_name;  // "N"; empty for switches
  std::string help;
  std::string group;
  // The value of a flag that is given without one ("--gpu"); empty if it needs one.
  std::string implicit;
  // Sets the value from a text; throws std::invalid_argument with what was expected.
  std::function<void(const std::string&)> set;
  std::function<std::string()> get;
  // Returns the text for the value `help`, usually a table of the flag's names. Null: `help` is a
  // value like any other.
  std::function<std::string()> listing;
  // Words that may be the value, for completion in shells; others may be allowed, too.
  std::vector<std::string> choices{};
  // Whether it may also be a file; values called FILE, PATH, DIR or FOLDER are one without this.
  bool may_be_file = false;

  // Called on the result of Options::add(): options.add(...).common("a few words"). common() shows
  // the flag on the screen of --help even if its group is not shown. Both set the words that appear
  // there instead of the first clause of `help`.
  Option& common(const std::string& text = "");
  Option& in_short(const std::string& text);
  // Sets `choices` of a value that may also be a file.
  Option& words_or_file(std::vector<std::string> words);
  OnScreen on_screen = OnScreen::in_group;
  std::string summary;

  std::string standard;  // text of the default
  Source source = Source::standard;
  bool is_listing_wanted = false;  // the last value given was `help`
};

// The value of a flag that may be `none`: `parse` converts any other text to a value, or throws as
// Option::set does; `text` is the inverse.
template <class T, class Parse, class Text>
void bind_or_none(Option& option, std::optional<T>& value, Parse parse, Text text) {
  option.set = [&value, parse](const std::string& given) {
    if (given == "none") {
      value.reset();
      return;
    }
    try {
      value = parse(given);
    } catch (const std::invalid_argument& expected) {
      throw std::invalid_argument(std::string(expected.what()) + ", or 'none'");
    }
  };
  option.get = [&value, text]() -> std::string { return value ? text(*value) : "none"; };
  option.choices = {"none"};
}

class Options {
 public:
  // `example` is a command line for --help.
  Options(std::string program, std::string purpose, std::string example);

  const std::string& program() const { return program_; }
  // What follows the flags on the command line, for --help.
  void operands(const std::string& text) { operands_ = ' ' + text; }
  // Title, in --help, of the flags that are added after this call. With OnScreen::no,
  // those that are not marked by Option::common() are left out of the screen.
  void group(const std::string& title, OnScreen on_screen = OnScreen::in_group) {
    group_ = title;
    group_on_screen_ = on_screen;
  }
  // Lines that follow the flags in --help.
  void appendix(const std::string& text) { appendix_ = text; }

  // `names` is "batchsize" or "batchsize,b". The result may be changed until the next flag is
  // added.
  Option& add(const std::string& names, std::int64_t& value, IntegerRange range,
              const std::string& value_name, const std::string& help);
  Option& add(const std::string& names, double& value, NumberRange range,
              const std::string& value_name, const std::string& help);
  Option& add(const std::string& names, std::string& value, const std::string& value_name,
              const std::string& help);
  Option& add(const std::string& names, std::string& value, const std::vector<std::string>& choices,
              const std::string& value_name, const std::string& help);
  // A flag for an enum, by the names of its values.
  template <class T>
  requires std::is_enum_v<T> Option& add(const std::string& names, T& value,
                                         const std::vector<Choice<T>>& choices,
                                         const std::string& value_name, const std::string& help) {
    return add(names, choice_option<T>(
                          choices, "", [&value](std::optional<T> chosen) { value = *chosen; },
                          [&value] { return std::optional(value); }, value_name, help));
  }
  // A switch: `--quiet`, or `--quiet=false` to override a file.
  Option& add(const std::string& names, bool& value, const std::string& help);
  // Numbers separated by commas, ascending; the word `absent` stands for an empty list.
  Option& add(const std::string& names, std::vector<double>& values, const std::string& absent,
              NumberRange range, const std::string& value_name, const std::string& help);
  // Values that may be absent; the word `absent` ("auto", "none", "epoch") stands for that.
  Option& add(const std::string& names, std::optional<std::int64_t>& value,
              const std::string& absent, IntegerRange range, const std::string& value_name,
              const std::string& help);
  Option& add(const std::string& names, std::optional<double>& value, const std::string& absent,
              NumberRange range, const std::string& value_name, const std::string& help);
  Option& add(const std::string& names, std::optional<std::string>& value,
              const std::string& absent, const std::string& value_name, const std::string& help);
  template <class T>
  requires std::is_enum_v<T> Option& add(const std::string& names, std::optional<T>& value,
                                         const std::string& absent,
                                         const std::vector<Choice<T>>& choices,
                                         const std::string& value_name, const std::string& help) {
    return add(names, choice_option<T>(
                          choices, absent, [&value](std::optional<T> chosen) { value = chosen; },
                          [&value] { return value; }, value_name, help));
  }
  // Any other option: set, get, help and names are filled in by the caller.
  Option& add(const std::string& names, Option option);

  // Further names of a flag, which may be added later: {"loaderjob", "j"}; one character is a
  // letter. Config files may use them, too. `values`: texts that have another name there, such as
  // {"-1", "end"}.
  void alias(const std::string& flag, const std::vector<std::string>& names,
             const std::map<std::string, std::string>& values = {});

  // Changes the default of a flag; a flag that was given keeps its value. For defaults that depend
  // on other flags, `choose` is called once the given flags are known, before anything is printed.
  void set_default(const std::string& name, const std::string& text);
  void choose_defaults(std::function<void()> choose) { choose_defaults_ = std::move(choose); }

  // Gives a flag that was not given its value in the run that this one resumes. Returns the text in
  // effect.
  std::string inherit(const std::string& name, const std::string& text);

  // listing: the value of a flag was `help` (Option::listing).
  enum class Request { run, help, version, print_config, listing };
  // Reads a config file; in a job of many ranks one of them reads it for all.
  using FileReader = std::function<std::string(const std::filesystem::path&)>;
  // Sets the variables. `arguments` are those after the program's name. For any request but run,
  // text() is what to print.
  Request parse(const std::vector<std::string>& arguments, const FileReader& read = read_file);
  std::string text(Request request) const;

  bool has(const std::string& name) const { return find(name) != nullptr; }
  // Whether a flag's value differs from its default.
  bool is_changed(const std::string& name) const;
  // Whether it was given, on the command line or in a file.
  bool is_given(const std::string& name) const;
  // Names and texts of all flags but the built-in ones (help, version, config, print-config).
  std::vector<std::pair<std::string, std::string>> values() const;
  const std::vector<Option>& all() const { return options_; }

 private:
  struct Given {
    std::string name, value, place;  // place: "--epoch" or "run.ini:3: epoch"
  };
  struct Alias {
    std::string name, flag;
    std::map<std::string, std::string> values;
  };
  const Alias* find_alias(const std::string& name) const;
  // Chainer's programs have names such as --gen_model, which mean the same here as --gen-model.
  std::string with_dashes(const std::string& name) const;
  // `given` under the flag's own name.
  Given without_alias(Given given) const;
  std::vector<Given> from_command_line(const std::vector<std::string>& arguments) const;
  std::vector<Given> from_file(const std::string& text, const std::string& file) const;
  // `absent`: the text for no choice; empty: there is always one.
  template <class T>
  static Option choice_option(const std::vector<Choice<T>>& choices, const std::string& absent,
                              std::function<void(std::optional<T>)> set_value,
                              std::function<std::optional<T>()> get_value,
                              const std::string& value_name, const std::string& help) {
    std::vector<std::string> texts;
    if (!absent.empty()) texts.push_back(absent);
    for (const Choice<T>& choice : choices) texts.emplace_back(choice.name);
    Option option;
    option.value_name = value_name;
    option.help = help;
    option.choices = texts;
    option.set = [set_value = std::move(set_value), choices, texts](const std::string& text) {
      const std::string found = parse_choice(text, texts);
      std::optional<T> chosen;
      for (const Choice<T>& choice : choices)
        if (found == choice.name) chosen = choice.value;
      set_value(chosen);
    };
    option.get = [get_value = std::move(get_value), choices, absent] {
      const std::optional<T> value = get_value();
      return value ? std::string(name_of(choices, *value)) : absent;
    };
    return option;
  }
  void assign(const std::vector<Given>& given, Source source, ErrorKind kind);
  Option* find(const std::string& name);
  const Option* find(const std::string& name) const;
  std::vector<std::string> names() const;
  [[noreturn]] void fail_unknown(const std::string& token) const;
  // "; did you mean --epoch?", or empty if no flag is near.
  std::string did_you_mean(const std::string& typed) const;
  bool is_listing_wanted() const;
  void check_help_word() const;
  // With their other names in their texts, and the built-in ones at the end.
  std::vector<Option> flags_to_describe() const;
  std::string help_head() const;
  std::string help_on_screen() const;
  std::string help_text() const;
  // options_pages.cpp: a manual page in groff's macros, and a file for bash-completion.
  std::string manual_page() const;
  std::string bash_completion() const;
  std::string listing_text() const;
  std::string config_text() const;

  std::string program_, purpose_, example_, operands_, appendix_, group_;
  OnScreen group_on_screen_ = OnScreen::in_group;
  std::string help_word_;  // what --help asks for; empty: the screen
  std::string config_;     // the file of --config
  Request request_ = Request::run;
  std::function<void()> choose_defaults_ = [] {};
  std::vector<Option> options_;
  std::vector<Alias> aliases_;
};

}  // namespace tasuki::program
