#include "experiment/plan.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>

#include "common/config_file.hpp"
#include "common/option_value.hpp"
#include "tasuki/core/error.hpp"

namespace tasuki::apps {
namespace {

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

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Replaces each {name} by what `value` makes of the name.
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

// A file being read: `where` is where its errors are.
class Reader {
 public:
  Reader(std::string file, ExperimentPlan& plan) : file_(std::move(file)), plan_(plan) {}

  void take(const ConfigLine& line) {
    const auto [first, is_new] = lines_.emplace(line.name, line.number);
    if (!is_new)
      fail(line.number,
           fmt::format("'{}' is set twice, first in line {}; separate values by commas", line.name,
                       first->second));
    try {
      take_value(line);
    } catch (const std::invalid_argument& expected) {
      fail(line.number,
           fmt::format("{}: expected {}, found '{}'", line.name, expected.what(), line.value));
    }
  }

  void finish() {
    if (plan_.program.empty())
      fail(0, "no program is named; add a line like `program = train_mnist`");
    for (const char* name : {"nodes", "np"})
      if (!lines_.contains(name)) plan_.axes.insert(plan_.axes.begin(), {name, {"1"}});
    for (const std::string& name : plan_.compare)
      if (std::ranges::none_of(plan_.axes, [&](const auto& axis) { return axis.name == name; }))
        fail(lines_["compare"], fmt::format("compare: '{}' is not set in this file", name));
    const auto nodes = std::ranges::find(plan_.axes, "nodes", &GridAxis::name);
    const bool is_one_node = nodes->values == std::vector<std::string>{"1"};
    if (!is_one_node && plan_.launcher_nodes.empty()) {
      if (plan_.hostfile.empty())
        fail(nodes->line,
             "several nodes need a line `hostfile = FILE`, or `launcher_nodes = WORDS` with how "
             "programs are started on {nodes} nodes");
      plan_.launcher_nodes =
          "mpirun -np {np} --hostfile {hostfile} --map-by ppr:{ranks_per_node}:node";
    }
    if (plan_.runs().empty())
      fail(nodes->line, "there is nothing to run: no np is a multiple of a number of nodes");
    check_launchers();
  }

 private:
  [[noreturn]] void fail(int line, const std::string& message) const {
    const std::string where = line > 0 ? fmt::format("{}:{}", file_, line) : file_;
    fail_everywhere(ErrorKind::config, "{}: {}", where, message);
  }

  void take_value(const ConfigLine& line) {
    const std::string& name = line.name;
    const bool may_be_empty = name == "launcher" || name == "launcher_nodes";
    if (line.value.empty() && !may_be_empty) throw std::invalid_argument("a value");
    if (name == "program")
      plan_.program = line.value;
    else if (name == "title")
      plan_.title = line.value;
    else if (name == "launcher")
      plan_.launcher = line.value;
    else if (name == "launcher_nodes")
      plan_.launcher_nodes = line.value;
    else if (name == "hostfile")
      plan_.hostfile = line.value;
    else if (name == "repeat")
      plan_.repeats = parse_integer(line.value, {1, 1000});
    else if (name == "timeout")
      plan_.timeout = parse_number(line.value, {0.01, 1e9});
    else if (name == "compare")
      plan_.compare = split_values(line.value);
    else if (name == "out")
      fail(line.number, "'out' cannot be set: every run has a folder of its own");
    else
      add_axis(line);
  }

  void add_axis(const ConfigLine& line) {
    GridAxis axis{line.name, split_values(line.value), line.number};
    if (line.name.find_first_of(" \t-") == 0 || line.name.find(' ') != std::string::npos)
      fail(line.number, fmt::format("'{}' is no name of a flag", line.name));
    for (std::size_t i = 0; i < axis.values.size(); ++i) {
      const std::string& value = axis.values[i];
      if (value.empty()) throw std::invalid_argument("values between commas");
      if (axis.name == "np" || axis.name == "nodes") parse_integer(value, counts);
      if (std::find(axis.values.begin(), axis.values.begin() + static_cast<std::ptrdiff_t>(i),
                    value) != axis.values.begin() + static_cast<std::ptrdiff_t>(i))
        throw std::invalid_argument("each value once");
    }
    plan_.axes.push_back(std::move(axis));
  }

  // Unknown {names} are found before anything has run.
  void check_launchers() {
    for (const RunSettings& run : plan_.runs()) {
      try {
        plan_.command(run, "out");
      } catch (const std::out_of_range& unknown) {
        const char* const name = run.nodes > 1 ? "launcher_nodes" : "launcher";
        fail(lines_[name], fmt::format("{}: nothing is called {{{}}}", name, unknown.what()));
      }
    }
  }

  std::string file_;
  ExperimentPlan& plan_;
  std::map<std::string, int> lines_;
};

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
  for (const std::string& word : split_words(run.nodes > 1 ? launcher_nodes : launcher))
    words.push_back(fill_in(word, value));
  words.push_back(program);
  for (const auto& [name, text] : run.values)
    if (name != "np" && name != "nodes") words.push_back(fmt::format("--{}={}", name, text));
  words.push_back(fmt::format("--out={}", out.string()));
  return words;
}

ExperimentPlan parse_experiment(std::string_view text, const std::string& file,
                                const std::filesystem::path& beside) {
  ExperimentPlan plan;
  Reader reader(file, plan);
  for (const ConfigLine& line : parse_config(text, file)) reader.take(line);
  reader.finish();
  if (plan.program.find('/') == std::string::npos) plan.program = (beside / plan.program).string();
  if (plan.title.empty()) plan.title = std::filesystem::path(file).stem().string();
  return plan;
}

}  // namespace tasuki::apps
