#include "tools/diff/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "core/named_file.hpp"
#include "core/printable.hpp"
#include "saving/saved_states.hpp"
#include "tools/diff/arrays.hpp"
#include "tools/diff/hashes.hpp"
#include "tools/diff/runs.hpp"

namespace tasuki::diff {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t most_settings = 20, most_names = 4, most_values = 4, most_arrays = 8;
constexpr std::size_t most_bytes = 60;  // of a value

class Writer {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    report.text += fmt::format(format, std::forward<Args>(args)...) + '\n';
  }
  Report report;
};

std::string shown(const std::string& value) {
  return value.empty() ? "-" : printable(value, most_bytes);
}

// "1 array", "2 arrays".
std::string counted(std::int64_t count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

std::string number(std::optional<double> value) {
  return value ? fmt::format("{}", *value) : "not finite";
}

// "l1/W, l1/b, ..."
std::string names_of(const std::vector<std::string>& names, bool all) {
  const std::size_t shown = all ? names.size() : std::min(names.size(), most_names);
  std::vector<std::string> texts;
  for (const std::string& name : std::span(names).first(shown)) texts.push_back(printable(name));
  return join(texts, ", ") + (shown < names.size() ? ", ..." : "");
}

void write_pairs(Writer& out, const std::vector<Pair>& pairs, std::size_t most) {
  const std::size_t count = std::min(pairs.size(), most);
  for (const Pair& pair : std::span(pairs).first(count))
    out.line("  {}: {} | {}", printable(pair.name, most_bytes), shown(pair.a), shown(pair.b));
  if (count < pairs.size()) out.line("  and {} more (--all lists them)", pairs.size() - count);
}

void write_settings(Writer& out, const fs::path& a, const fs::path& b, bool all) {
  const auto settings = compare_settings(a, b);
  if (!settings) return out.line("Settings: not compared, because a run has no about.json");
  if (settings->empty()) return out.line("Settings: none differs that results depend on");
  out.line("Settings that differ:");
  write_pairs(out, *settings, all ? settings->size() : most_settings);
}

std::string range_text(std::int64_t first, std::int64_t last) {
  return first == last ? fmt::format("iteration {} is equal", first)
                       : fmt::format("iterations {} to {} are equal", first, last);
}

void write_loss(Writer& out, const HashComparison& found) {
  if (!found.has_loss) return;
  if (!found.loss_differs) return out.line("  loss: {}, equal", number(found.loss_a));
  const std::string by = found.loss_a && found.loss_b
                             ? fmt::format(", difference {:.3g}", *found.loss_b - *found.loss_a)
                             : "";
  out.line("  loss: {} | {}{}", number(found.loss_a), number(found.loss_b), by);
}

// What a step computes first of what differs.
std::string first_difference(const HashComparison& found) {
  if (found.loss_differs) return "loss";
  for (const GroupDifference& group : found.groups) {
    if (!group.what.empty()) return group.name;
    if (!group.differing.empty())
      return fmt::format("{} of {}", group.name, printable(group.differing.front()));
  }
  return "nothing";
}

void write_hashes(Writer& out, const HashComparison& found, bool all) {
  if (found.common == 0) return out.line("Hashes: the runs have no iteration in common");
  if (!found.different)
    return out.line("Hashes: {} ({} compared)", range_text(*found.first, *found.last),
                    found.common);
  out.report.differs = true;
  out.line("Hashes: iteration {} differs, first in the {}", *found.different,
           first_difference(found));
  out.line("  before: {}", found.last_equal ? range_text(*found.first, *found.last_equal)
                                            : "no earlier iteration was compared");
  write_loss(out, found);
  for (const GroupDifference& group : found.groups) {
    if (!group.what.empty())
      out.line("  {}: {}", printable(group.name), group.what);
    else if (group.differing.empty())
      out.line("  {}: {}, equal", printable(group.name), counted(group.arrays, "array", "arrays"));
    else
      out.line("  {}: {} of {} arrays differ: {}", printable(group.name), group.differing.size(),
               group.arrays, names_of(group.differing, all));
  }
}

void write_log(Writer& out, const LogComparison& found, bool all) {
  if (found.common == 0) return out.line("Log: the runs have no entry of the same iteration");
  if (!found.different)
    return out.line("Log: {} equal, but for times",
                    counted(found.common, "entry is", "entries are"));
  out.report.differs = true;
  out.line(
      "Log: the entry of iteration {} differs{}", *found.different,
      found.last_equal ? fmt::format("; that of iteration {} is equal", *found.last_equal) : "");
  write_pairs(out, found.values, all ? found.values.size() : most_values);
}

// `states`: how they are called. Whether they differ.
bool write_arrays(Writer& out, const std::string& states, const ArraysComparison& found, bool all) {
  if (found.differing.empty()) {
    out.line("{}: {}, equal", states, counted(found.compared, "array", "arrays"));
    return false;
  }
  out.report.differs = true;
  out.line("{}: {} of {} arrays differ", states, found.differing.size(), found.compared);
  const std::size_t count =
      all ? found.differing.size() : std::min(found.differing.size(), most_arrays);
  for (const ArrayDifference& each : std::span(found.differing).first(count))
    out.line("  {}: {}", printable(each.name), printable(text_of(each)));
  if (count < found.differing.size())
    out.line("  and {} more (--all lists them)", found.differing.size() - count);
  return true;
}

void append(ArraysComparison& all, ArraysComparison part, const std::string& prefix) {
  all.compared += part.compared;
  for (ArrayDifference& each : part.differing) {
    each.name = prefix + each.name;
    all.differing.push_back(std::move(each));
  }
}

ArraysComparison compare_state(const CommonState& state, int parts) {
  ArraysComparison found;
  for (int part = 0; part < parts; ++part) {
    const std::string suffix = parts > 1 ? fmt::format(".{}", part) : "";
    append(found,
           compare_sources(*open_saved_state(state.a, suffix), *open_saved_state(state.b, suffix)),
           parts > 1 ? fmt::format("part{}/", part) : "");
  }
  return found;
}

// Whether any state was compared.
bool write_states(Writer& out, const fs::path& a, const fs::path& b,
                  const std::optional<HashComparison>& hashes, bool all) {
  const int parts = model_parts_in(a);
  if (parts != model_parts_in(b)) {
    out.line("Saved states: not compared, because the models have {} and {} parts", parts,
             model_parts_in(b));
    return false;
  }
  std::vector<CommonState> states = common_states(a, b, parts);
  if (states.empty()) {
    out.line("Saved states: the runs have none of the same iteration");
    return false;
  }
  // Hashes tell which one to look at; without them, each may be the first that differs.
  if (hashes && hashes->common > 0) {
    const auto after = std::ranges::find_if(states, [&](const CommonState& state) {
      return hashes->different && state.iteration >= *hashes->different;
    });
    states = {after == states.end() ? states.back() : *after};
  }
  for (const CommonState& state : states)
    if (write_arrays(out, fmt::format("Saved states of iteration {}", state.iteration),
                     compare_state(state, parts), all))
      break;
  return true;
}

}  // namespace

Report compare_runs(const fs::path& a, const fs::path& b, bool all) {
  Writer out;
  write_settings(out, a, b, all);
  std::optional<HashComparison> hashes;
  const bool has_a = fs::exists(status_of(a / hashes_name));
  const bool has_b = fs::exists(status_of(b / hashes_name));
  if (has_a && has_b) {
    hashes = compare_hashes(a / hashes_name, b / hashes_name);
    write_hashes(out, *hashes, all);
  } else {
    out.line("Hashes: {} (--hash-every N writes them)",
             has_a == has_b ? "neither run has them"
                            : fmt::format("only the {} run has them", has_a ? "first" : "second"));
  }
  const std::optional<LogComparison> log = compare_logs(a, b);
  if (log)
    write_log(out, *log, all);
  else
    out.line("Log: not compared, because a run has none");
  const bool has_states = write_states(out, a, b, hashes, all);
  const bool has_anything =
      has_states || (hashes && hashes->common > 0) || (log && log->common > 0);
  if (!has_anything)
    fail(ErrorKind::data,
         "{} and {}: there is nothing to compare: no hashes, log entries or saved states of the "
         "same iteration",
         a.string(), b.string());
  if (!out.report.differs) out.line("No difference found.");
  return out.report;
}

Report compare_files(const fs::path& a, const fs::path& b, bool all) {
  Writer out;
  const ArraysComparison found = compare_sources(*open_weights(a), *open_weights(b));
  if (found.compared == 0)
    fail(ErrorKind::data, "{} and {}: there are no arrays to compare", a.string(), b.string());
  write_arrays(out, "Arrays", found, all);
  if (!out.report.differs) out.line("No difference found.");
  return out.report;
}

}  // namespace tasuki::diff
