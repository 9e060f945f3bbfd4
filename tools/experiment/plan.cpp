#include "tools/experiment/plan.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/terminal.hpp"
#include "core/text_parts.hpp"
#include "core/utf8.hpp"
#include "program/flags/config_file.hpp"
#include "program/flags/option_value.hpp"

namespace tasuki::experiment {
namespace {

using program::ConfigLine;
using program::IntegerRange;
using program::NumberRange;
using program::parse_config;
using program::parse_integer;
using program::parse_number;
using program::parse_switch;

constexpr IntegerRange counts{1, 1 << 20};

// "a, b\,c" as "a" and "b,c".
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> values(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ',')
      values.back() += text[++i];
    else if (text[i] == ',')
      values.emplace_back();
    else if (text[i] != ' ' || !values.back().empty())
      values.back() += text[i];
  }
  for (std::string& value : values) value.erase(value.find_last_not_of(' ') + 1);
  return values;
}

// Replaces each {name} by value(name).
std::string fill_in(const std::string& word,
                    const std::function<std::string(const std::string&)>& value) {
  std::string filled;
  for (std::size_t at = 0; at < word.size();) {
    const auto open = word.find('{', at);
    const auto close = open == std::string::npos ? open : word.find('}', open);
    filled += word.substr(at, close == std::string::npos ? close : open - at);
    if (close == std::string::npos) break;
    filled += value(word.substr(open + 1, close - open - 1));
    at = close + 1;
  }
  return filled;
}

struct Key {
  const char* name;
  const char* value;
  const char* help;
  // Parses one setting; throws std::invalid_argument with what was expected. Null for axes of the
  // grid.
  void (*take)(ExperimentPlan& plan, const std::string& value);
};

constexpr auto keys = std::to_array<Key>({
    {"program", "NAME", "a program beside this one, or a path with a slash",
     [](ExperimentPlan& plan, const std::string& value) { plan.program = value; }},
    {"title", "TEXT", "heading of the tables (default: the file's name)",
     [](ExperimentPlan& plan, const std::string& value) { plan.title = value; }},
    {"np", "N, ...", "processes (default: 1)", nullptr},
    {"nodes", "N, ...", "nodes, each with the same number of processes (default: 1)", nullptr},
    {"repeat", "N", "runs of each row; tables show the median (default: 1)",
     [](ExperimentPlan& plan, const std::string& value) {
       plan.repeats = parse_integer(value, {1, 1000});
     }},
    {"timeout", "SECONDS", "longest time that a run may take (default: 86400)",
     [](ExperimentPlan& plan, const std::string& value) {
       plan.timeout = parse_number(value, {0.01, 1e9});
     }},
    {"compare", "NAME, ...",
     "settings whose first values are the baseline of speed-ups (default: np, nodes)",
     [](ExperimentPlan& plan, const std::string& value) { plan.compare = split_values(value); }},
    {"launcher", "WORDS", "words before the program, on one node (default: mpirun -np {np})",
     [](ExperimentPlan& plan, const std::string& value) { plan.launcher = value; }},
    {"launcher_nodes", "WORDS", "the same on several nodes (default: mpirun with the hostfile)",
     [](ExperimentPlan& plan, const std::string& value) { plan.launcher_nodes = value; }},
    {"hostfile", "FILE", "file that lists the nodes, {hostfile} in launchers",
     [](ExperimentPlan& plan, const std::string& value) { plan.hostfile = value; }},
});

const Key* find_key(const std::string& name) {
  const auto* const found =
      std::ranges::find_if(keys, [&](const Key& key) { return key.name == name; });
  return found != keys.end() ? found : nullptr;
}

// The settings of one experiment being read.
class Reader {
 public:
  explicit Reader(ExperimentPlan& plan) : plan_(plan) {}

  void take(const ConfigLine& line) {
    const auto [first, is_new] = plan_.lines.emplace(line.name, line.number);
    if (!is_new)
      fail(line.number,
           fmt::format("'{}' is set twice, first in line {}; separate values by commas", line.name,
                       first->second));
    try {
      take_value(line);
    } catch (const std::invalid_argument& expected) {
      fail(line.number, fmt::format("{}: expected {}, found '{}'", line.name, expected.what(),
                                    quoted_input(line.value)));
    }
  }

  void finish() {
    if (plan_.program.empty())
      fail_everywhere(ErrorKind::config,
                      "{}{}: no program is given; add a line like `program = train_mnist`",
                      plan_.file, plan_.section.empty() ? "" : fmt::format(" [{}]", plan_.section));
    for (const char* name : {"nodes", "np"})
      if (!plan_.lines.contains(name)) plan_.axes.insert(plan_.axes.begin(), {name, {"1"}});
    for (const std::string& name : plan_.compare)
      if (std::ranges::none_of(plan_.axes, [&](const auto& axis) { return axis.name == name; }))
        fail("compare", fmt::format("compare: '{}' is not set in this file", name));
    const auto nodes = std::ranges::find(plan_.axes, "nodes", &GridAxis::name);
    const bool is_one_node = nodes->values == std::vector<std::string>{"1"};
    if (!is_one_node && plan_.launcher_nodes.empty()) {
      if (plan_.hostfile.empty())
        fail("nodes",
             "runs on several nodes need a line `hostfile = FILE`, or `launcher_nodes = WORDS`, "
             "the words that start a program on {nodes} nodes");
      plan_.launcher_nodes =
          "mpirun -np {np} --hostfile {hostfile} --map-by ppr:{ranks_per_node}:node";
    }
    if (plan_.runs().empty())
      fail("nodes", "there is nothing to run: no np is a multiple of a number of nodes");
    check_launchers();
  }

 private:
  [[noreturn]] void fail(int line, const std::string& message) const {
    fail_everywhere(ErrorKind::config, "{}:{}: {}", plan_.file, line, message);
  }
  [[noreturn]] void fail(const std::string& name, const std::string& message) const {
    fail_everywhere(ErrorKind::config, "{}: {}", plan_.place_of(name), message);
  }

  void take_value(const ConfigLine& line) {
    const bool may_be_empty = line.name == "launcher" || line.name == "launcher_nodes";
    if (line.value.empty() && !may_be_empty) throw std::invalid_argument("a value");
    if (line.name == "out")
      fail(line.number, "'out' cannot be set, because every run has its own folder");
    const Key* const key = find_key(line.name);
    if (key != nullptr && key->take != nullptr)
      key->take(plan_, line.value);
    else
      add_axis(line);
  }

  void add_axis(const ConfigLine& line) {
    GridAxis axis{line.name, split_values(line.value)};
    if (line.name.find_first_of(" \t-") == 0 || line.name.find(' ') != std::string::npos)
      fail(line.number, fmt::format("'{}' is not a valid name of a flag", line.name));
    for (std::size_t i = 0; i < axis.values.size(); ++i) {
      const std::string& value = axis.values[i];
      if (value.empty()) throw std::invalid_argument("values between commas");
      if (axis.name == "np" || axis.name == "nodes") parse_integer(value, counts);
      if (std::find(axis.values.begin(), axis.values.begin() + static_cast<std::ptrdiff_t>(i),
                    value) != axis.values.begin() + static_cast<std::ptrdiff_t>(i))
        throw std::invalid_argument("different values");
    }
    plan_.axes.push_back(std::move(axis));
  }

  // Finds unknown {names} before anything has run.
  void check_launchers() {
    for (const RunSettings& run : plan_.runs()) {
      try {
        plan_.command(run, "out");
      } catch (const std::out_of_range& unknown) {
        const char* const name = run.nodes > 1 ? "launcher_nodes" : "launcher";
        fail(name, fmt::format("{}: {{{}}} is unknown", name, unknown.what()));
      }
    }
  }

  ExperimentPlan& plan_;
};

// A part of a file that keeps its line numbers: all lines outside of it are empty.
struct Section {
  std::string name;
  std::string text;
};

// "[name]" as "name"; nothing if the line does not begin a section.
std::optional<std::string> section_name(std::string_view line, const std::string& place) {
  const auto begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos || line[begin] != '[') return std::nullopt;
  const auto end = line.find(']');
  const auto rest = end == std::string_view::npos ? end : line.find_first_not_of(" \t\r", end + 1);
  const bool is_ended = end != std::string_view::npos &&
                        (rest == std::string_view::npos || line[rest] == '#' || line[rest] == ';');
  const std::string name(is_ended ? line.substr(begin + 1, end - begin - 1) : "");
  // The name becomes the name of a folder.
  const bool is_fine =
      !name.empty() && name.front() != '.' && std::ranges::all_of(name, [](unsigned char c) {
        return std::isalnum(c) || c == '-' || c == '_' || c == '.';
      });
  if (!is_fine)
    fail_everywhere(ErrorKind::config,
                    "{}: expected a section name in brackets, of letters, digits and -_., found "
                    "`{}`",
                    place, line);
  return name;
}

// The lines before the first section, and the sections.
std::vector<Section> split_sections(std::string_view text, const std::string& file) {
  std::vector<Section> sections(1);
  std::map<std::string, int> line_of;
  text = without_byte_order_mark(text);
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string place = fmt::format("{}:{}", file, number);
    if (auto name = section_name(line, place)) {
      const auto [first, is_new] = line_of.emplace(*name, number);
      if (!is_new)
        fail_everywhere(ErrorKind::config, "{}: there is already a section [{}] in line {}", place,
                        *name, first->second);
      sections.push_back({std::move(*name), std::string(static_cast<std::size_t>(number), '\n')});
    } else {
      sections.back().text += line;
      sections.back().text += '\n';
    }
  }
  return sections;
}

ExperimentPlan plan_of(const std::vector<ConfigLine>& lines, const std::string& file,
                       const std::string& section, const std::filesystem::path& beside) {
  ExperimentPlan plan;
  plan.file = file;
  plan.section = section;
  Reader reader(plan);
  for (const ConfigLine& line : lines) reader.take(line);
  reader.finish();
  plan.is_program_beside = plan.program.find('/') == std::string::npos;
  if (plan.is_program_beside) plan.program = (beside / plan.program).string();
  if (plan.title.empty()) plan.title = std::filesystem::path(file).stem().string();
  return plan;
}

}  // namespace

std::string RunSettings::value(std::string_view name) const {
  for (const auto& [key, value] : values)
    if (key == name) return value;
  return "";
}

std::string RunSettings::text(const std::vector<std::string>& names) const {
  std::string text;
  for (const std::string& name : names)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value(name));
  return text.empty() ? "the only one" : text;
}

std::vector<std::string> ExperimentPlan::varying() const {
  std::vector<std::string> names;
  for (const GridAxis& axis : axes)
    if (axis.values.size() > 1) names.push_back(axis.name);
  return names;
}

std::vector<RunSettings> ExperimentPlan::runs() const {
  std::vector<RunSettings> all(1);
  for (const GridAxis& axis : axes) {
    std::vector<RunSettings> longer;
    for (const RunSettings& run : all)
      for (const std::string& value : axis.values) {
        longer.push_back(run);
        longer.back().values.emplace_back(axis.name, value);
      }
    all = std::move(longer);
  }
  std::vector<RunSettings> repeated;
  for (RunSettings& run : all) {
    run.np = parse_integer(run.value("np"), counts);
    run.nodes = parse_integer(run.value("nodes"), counts);
    if (run.np % run.nodes != 0) continue;
    for (run.repeat = 1; run.repeat <= repeats; ++run.repeat) repeated.push_back(run);
  }
  return repeated;
}

std::vector<std::string> ExperimentPlan::command(const RunSettings& run,
                                                 const std::filesystem::path& out) const {
  const auto value = [&](const std::string& name) {
    if (name == "ranks_per_node") return std::to_string(run.np / run.nodes);
    if (name == "hostfile" && !hostfile.empty()) return hostfile;
    std::string found = run.value(name);
    if (found.empty()) throw std::out_of_range(name);
    return found;
  };
  std::vector<std::string> words;
  for (const std::string& word : text_words(run.nodes > 1 ? launcher_nodes : launcher))
    words.push_back(fill_in(word, value));
  const std::vector<std::string> own = program_with_flags(run);
  words.insert(words.end(), own.begin(), own.end());
  words.push_back(fmt::format("--out={}", out.string()));
  return words;
}

std::vector<std::string> ExperimentPlan::program_with_flags(const RunSettings& run) const {
  std::vector<std::string> words = {program};
  for (const auto& [name, text] : run.values)
    if (name != "np" && name != "nodes") words.push_back(fmt::format("--{}={}", name, text));
  return words;
}

std::string ExperimentPlan::place_of(const std::string& name) const {
  const auto line = lines.find(name);
  return line != lines.end() ? fmt::format("{}:{}", file, line->second) : file;
}

std::vector<ExperimentPlan> parse_experiments(std::string_view text, const std::string& file,
                                              const std::filesystem::path& beside) {
  std::vector<Section> sections = split_sections(text, file);
  const std::vector<ConfigLine> common = parse_config(sections.front().text, file);
  if (sections.size() == 1) return {plan_of(common, file, "", beside)};
  sections.erase(sections.begin());
  std::vector<ExperimentPlan> plans;
  for (const Section& section : sections) {
    const std::vector<ConfigLine> own = parse_config(section.text, file);
    const auto is_own = [&](const std::string& name) {
      return std::ranges::find(own, name, &ConfigLine::name) != own.end();
    };
    std::vector<ConfigLine> lines;
    std::ranges::copy_if(common, std::back_inserter(lines),
                         [&](const ConfigLine& line) { return !is_own(line.name); });
    lines.insert(lines.end(), own.begin(), own.end());
    plans.push_back(plan_of(lines, file, section.name, beside));
    if (!is_own("title")) plans.back().title += ": " + section.name;
  }
  return plans;
}

std::vector<std::string> experiment_keys() {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const Key& key : keys) names.emplace_back(key.name);
  return names;
}

std::string experiment_help() {
  std::string text = "Keys of FILE, one `name = value` per line; `#` begins a comment:\n";
  for (const Key& key : keys)
    text += fmt::format("  {:<24}{}\n", fmt::format("{} = {}", key.name, key.value), key.help);
  return wrap_lines(text, usual_width) +
         R"(Every other name is a flag of the program, without its dashes. Several values,
separated by commas, make the grid of runs; `\,` is a comma within a value.
Launchers may contain {np}, {nodes}, {ranks_per_node}, {hostfile} and {flag}.
`[name]` begins a separate experiment, in results/FILE/name; the lines before
the first section apply to all of them.
)";
}

}  // namespace tasuki::experiment
