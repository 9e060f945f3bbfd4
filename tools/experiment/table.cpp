#include "tools/experiment/table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <stdexcept>

#include "core/printable.hpp"
#include "program/flags/option_value.hpp"
#include "tools/experiment/record.hpp"

namespace tasuki::experiment {
namespace {

std::optional<double> median(std::vector<std::optional<double>> found) {
  std::erase(found, std::nullopt);
  if (found.empty()) return std::nullopt;
  std::ranges::sort(found);
  const std::size_t middle = found.size() / 2;
  if (found.size() % 2 == 1) return found[middle];
  return (*found[middle - 1] + *found[middle]) / 2;
}

RunResult median_of(const std::vector<RunResult>& results) {
  const auto over = [&](auto get) {
    std::vector<std::optional<double>> values;
    values.reserve(results.size());
    for (const RunResult& each : results) values.push_back(get(each));
    return median(std::move(values));
  };
  RunResult middle = results[0];
  middle.seconds = *over([](const RunResult& r) { return std::optional(r.seconds); });
  middle.wall_seconds = *over([](const RunResult& r) { return std::optional(r.wall_seconds); });
  middle.loss = over([](const RunResult& r) { return r.loss; });
  middle.accuracy = over([](const RunResult& r) { return r.accuracy; });
  middle.first_epoch_seconds = over([](const RunResult& r) { return r.first_epoch_seconds; });
  middle.epoch_seconds = over([](const RunResult& r) { return r.epoch_seconds; });
  middle.step_seconds = over([](const RunResult& r) { return r.step_seconds; });
  return middle;
}

// Examples per step over all ranks: for runs with max-iterations as the program reported it, else
// from the settings.
std::optional<double> examples_of_step(const TableRow& row) {
  const RunSettings& run = row.settings;
  if (!run.value("max-iterations").empty())
    for (const RunOrigin& origin : row.origins)
      if (origin.global_batch) return origin.global_batch;

  const auto number = [&](const char* name) -> std::optional<double> {
    try {
      return program::parse_number(run.value(name), {1, 1e12});
    } catch (const std::invalid_argument&) {
      return std::nullopt;
    }
  };
  if (const auto global = number("global-batch")) return global;
  if (const auto each = number("batchsize")) return *each * static_cast<double>(run.np);
  return std::nullopt;
}

// Speed in the steady steps, if the log has them, else over the whole run.
std::optional<double> examples_per_second(const TableRow& row) {
  const auto examples = examples_of_step(row);
  if (!examples || !row.result) return std::nullopt;
  const RunResult& result = *row.result;
  if (result.step_seconds && *result.step_seconds > 0) return *examples / *result.step_seconds;
  if (result.seconds <= 0) return std::nullopt;
  return *examples * static_cast<double>(result.iterations) / result.seconds;
}

// The quantity in the column of examples per second.
std::string note_on_speed(const std::vector<TableRow>& rows) {
  const auto has_speed = [](const TableRow& row) { return row.examples_per_second.has_value(); };
  const auto has_steps = [](const TableRow& row) {
    return row.result && row.result->step_seconds.has_value();
  };
  const auto lacks_batch = [&](const TableRow& row) {
    return row.result && !row.settings.value("max-iterations").empty() && !has_speed(row);
  };
  if (std::ranges::any_of(rows, lacks_batch))
    return "; no speed-up for runs shortened by max-iterations whose batch is not recorded: add "
           "batchsize or global-batch to the file, or repeat them with --rerun";
  if (std::ranges::none_of(rows, has_speed)) return "";
  if (std::ranges::all_of(rows, has_steps))
    return fmt::format("; examples / s in the median step, without the first {} of a run",
                       warm_up_steps);
  return "; examples / s over whole runs, including start and evaluation";
}

// Work per second, in a unit that is the same for all rows of an experiment.
std::optional<double> rate_of(const TableRow& row) {
  if (!row.result || row.result->seconds <= 0) return std::nullopt;
  if (!row.settings.value("max-iterations").empty()) return row.examples_per_second;
  return static_cast<double>(row.result->epochs) / row.result->seconds;
}

bool differ_only_in(const std::vector<std::string>& names, const RunSettings& a,
                    const RunSettings& b) {
  return std::ranges::all_of(a.values, [&](const auto& entry) {
    return std::ranges::find(names, entry.first) != names.end() ||
           b.value(entry.first) == entry.second;
  });
}

void compare(const ExperimentPlan& plan, std::vector<TableRow>& rows) {
  for (TableRow& row : rows) {
    const TableRow& first = *std::ranges::find_if(rows, [&](const TableRow& other) {
      return differ_only_in(plan.compare, row.settings, other.settings);
    });
    const auto own = rate_of(row), reference = rate_of(first);
    if (!own || !reference || *reference <= 0) continue;
    row.speedup = *own / *reference;
    row.efficiency = *row.speedup * static_cast<double>(first.settings.np) /
                     static_cast<double>(row.settings.np);
  }
}

std::string cell(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "";
}

bool is_oversubscribed(const TableRow& row) {
  return std::ranges::any_of(row.origins, &RunOrigin::oversubscribed);
}

// A column of the table; left out if it is empty in all rows.
struct Column {
  std::string title;
  std::function<std::string(const TableRow&)> text;
};

std::vector<Column> columns_of(const ExperimentPlan& plan) {
  std::vector<Column> columns;
  const std::vector<std::string> varying = plan.varying();
  columns.reserve(varying.size() + 6);
  for (const std::string& name : varying) {
    const bool is_np = name == "np";
    columns.push_back({is_np ? "processes" : name, [name, is_np](const TableRow& row) {
                         const bool is_marked = is_np && is_oversubscribed(row);
                         return row.settings.value(name) + (is_marked ? "*" : "");
                       }});
  }
  columns.push_back({"time [s]", [](const TableRow& row) {
                       return row.result ? cell(row.result->seconds, 2)
                                         : fmt::format("**{}**", failure_mark(row.failure));
                     }});
  columns.push_back({"first epoch [s]", [](const TableRow& row) {
                       const bool has_others = row.result && row.result->epoch_seconds;
                       return has_others ? cell(row.result->first_epoch_seconds, 2) : "";
                     }});
  columns.push_back({"other epochs, median [s]", [](const TableRow& row) {
                       return row.result ? cell(row.result->epoch_seconds, 2) : "";
                     }});
  columns.push_back(
      {"examples / s", [](const TableRow& row) { return cell(row.examples_per_second, 0); }});
  columns.push_back({"speed-up", [](const TableRow& row) { return cell(row.speedup, 2); }});
  if (std::ranges::find(varying, "np") != varying.end())
    columns.push_back({"efficiency", [](const TableRow& row) {
                         return row.efficiency ? fmt::format("{:.0f} %", *row.efficiency * 100)
                                               : "";
                       }});
  columns.push_back({"accuracy", [](const TableRow& row) {
                       return row.result ? cell(row.result->accuracy, 4) : "";
                     }});
  return columns;
}

// Titles, then rows of as many cells.
using Cells = std::vector<std::vector<std::string>>;

std::string markdown_table(const Cells& cells) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += '|';
    for (const std::string& cell : cells[i])
      text += i == 0 && cell.empty() ? " |" : fmt::format(" {} |", cell);
    text += '\n';
    if (i > 0) continue;
    for (std::size_t column = 0; column < cells[i].size(); ++column) text += "|-";
    text += "|\n";
  }
  return text;
}

// A title's words; a hyphen also ends a word.
std::vector<std::string> words_of(const std::string& title) {
  std::vector<std::string> words;
  std::istringstream stream(title);
  for (std::string word; stream >> word;) {
    for (std::size_t end = word.find('-') + 1; end > 0 && end < word.size();
         end = word.find('-') + 1) {
      words.push_back(word.substr(0, end));
      word.erase(0, end);
    }
    words.push_back(word);
  }
  return words;
}

// The width of the widest cell or word of the title.
std::size_t width_of(const Cells& cells, std::size_t column) {
  std::size_t width = 0;
  for (const std::string& word : words_of(cells[0][column])) width = std::max(width, word.size());
  for (std::size_t i = 1; i < cells.size(); ++i) width = std::max(width, cells[i][column].size());
  return width;
}

std::vector<std::string> lines_of(const std::string& title, std::size_t width) {
  std::vector<std::string> lines(1);
  for (const std::string& word : words_of(title)) {
    const std::string before = lines.back().empty() || lines.back().ends_with('-') ? "" : " ";
    if (lines.back().size() + before.size() + word.size() > width)
      lines.push_back(word);
    else
      lines.back() += before + word;
  }
  return lines;
}

// With titles over several lines, aligned at the last one, and `gap` blanks between columns.
std::string aligned_table(const Cells& cells, std::size_t gap) {
  const std::size_t columns = cells[0].size();
  std::vector<std::size_t> widths;
  std::vector<std::vector<std::string>> titles;
  std::size_t height = 0;
  for (std::size_t column = 0; column < columns; ++column) {
    widths.push_back(width_of(cells, column));
    titles.push_back(lines_of(cells[0][column], widths.back()));
    height = std::max(height, titles.back().size());
  }
  Cells all(height, std::vector<std::string>(columns));
  for (std::size_t column = 0; column < columns; ++column)
    for (std::size_t line = 0; line < titles[column].size(); ++line)
      all[height - titles[column].size() + line][column] = titles[column][line];
  all.insert(all.end(), cells.begin() + 1, cells.end());
  std::string text;
  for (const auto& row : all) {
    std::string line;
    for (std::size_t column = 0; column < columns; ++column)
      line += fmt::format("{:<{}}", row[column], widths[column] + gap);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

std::string table_text(const Cells& cells, std::size_t width) {
  for (const std::string& text :
       {markdown_table(cells), aligned_table(cells, 2), aligned_table(cells, 1)})
    if (longest_line(text) <= width) return text;
  return wrap_lines(aligned_table(cells, 1), width);
}

// Empty if no run was monitored.
std::string loads_text(const std::vector<TableRow>& rows, std::size_t width) {
  Cells cells = {{"row", "rank", "load [%]", "memory [MB]", "input wait [ms]", "step [ms]"}};
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (const RankLoad& load : rows[row].loads) {
      const auto in_milliseconds = [](std::optional<double> seconds) {
        return seconds ? std::optional(*seconds * 1e3) : std::nullopt;
      };
      cells.push_back({std::to_string(row + 1), load.name, cell(load.load_percent, 0),
                       cell(load.memory_mb, 0), cell(in_milliseconds(load.input_seconds), 2),
                       cell(in_milliseconds(load.step_seconds), 2)});
    }
  return cells.size() == 1 ? "" : '\n' + table_text(cells, width);
}

std::vector<AlikeRows> groups_of(const std::vector<TableRow>& rows) {
  std::vector<std::vector<RunOrigin>> origins;
  origins.reserve(rows.size());
  for (const TableRow& row : rows) origins.push_back(row.origins);
  return group_by_origin(origins);
}

std::string rows_text(const std::vector<int>& rows) {
  std::vector<std::string> numbers;
  for (const int row : rows) numbers.push_back(std::to_string(row));
  return fmt::format("{} {}", rows.size() == 1 ? "row" : "rows", join(numbers, ","));
}

std::string note_on_mixture(const std::vector<TableRow>& rows) {
  const std::vector<AlikeRows> groups = groups_of(rows);
  if (groups.size() < 2) return "";
  std::string text =
      "\n**Mixed**: these rows were made under different conditions (`tasuki-experiment --rerun "
      "ROWS` "
      "measures them again):\n\n";
  for (const AlikeRows& group : groups)
    text += fmt::format("- {}: {}\n", rows_text(group.rows), group.text);
  return text;
}

}  // namespace

std::vector<TableRow> summarise(const ExperimentPlan& plan, const std::vector<RunRecord>& runs) {
  std::vector<TableRow> rows;
  std::vector<RunResult> results;
  for (const RunRecord& run : runs) {
    if (run.settings.repeat == 1) {
      rows.emplace_back();
      rows.back().settings = run.settings;
      rows.back().command = run.command;
      results.clear();
    }
    TableRow& row = rows.back();
    if (run.result) {
      if (results.empty()) row.loads = read_rank_loads(run.folder / "result");
      results.push_back(*run.result);
      row.origins.push_back(run.origin.value_or(RunOrigin{}));
    } else if (row.failure.empty()) {
      row.failure = run.failure.empty() ? "not run yet" : run.failure;
    }
    row.done = static_cast<int>(results.size());
    if (results.empty()) continue;
    row.result = median_of(results);
    row.examples_per_second = examples_per_second(row);
  }
  compare(plan, rows);
  return rows;
}

std::string warn_of_mixture(const std::vector<TableRow>& rows) {
  const std::vector<AlikeRows> groups = groups_of(rows);
  if (groups.size() < 2) return "";
  std::vector<std::string> texts;
  texts.reserve(groups.size());
  for (const AlikeRows& group : groups) texts.push_back(rows_text(group.rows));
  return fmt::format(
      "warning: {} were made with different versions, machines or data (see the note below the "
      "table); --rerun ROWS measures rows again",
      join(texts, " and "));
}

std::string markdown_text(const ExperimentPlan& plan, const std::vector<TableRow>& rows,
                          const std::string& machine, std::size_t width) {
  std::vector<Column> columns = columns_of(plan);
  std::erase_if(columns, [&](const Column& column) {
    return std::ranges::all_of(rows, [&](const auto& row) { return column.text(row).empty(); });
  });
  std::string text = fmt::format("## {}\n\n{}", plan.title, machine);
  if (plan.repeats > 1) text += fmt::format("; medians of {} runs", plan.repeats);
  text += note_on_speed(rows) + '.';
  if (std::ranges::any_of(rows, is_oversubscribed))
    text += " `*`: more computing threads than the machine has cores.";
  text = wrap_lines(text + "\n\n", width);
  Cells cells = {{""}};
  for (const Column& column : columns) cells[0].push_back(column.title);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    cells.push_back({std::to_string(i + 1)});
    for (const Column& column : columns) cells.back().push_back(column.text(rows[i]));
  }
  text += table_text(cells, width) + loads_text(rows, width) + '\n';
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += fmt::format("{}. `{}`", i + 1, join(rows[i].command, " "));
    if (rows[i].done < plan.repeats)
      text += fmt::format(" ({} of {} runs done: {})", rows[i].done, plan.repeats, rows[i].failure);
    text += '\n';
  }
  return text + wrap_lines(note_on_mixture(rows), width);
}

}  // namespace tasuki::experiment
