// Runs a grid of training programs, and makes tables and a plot of the results.
//
//   tasuki-experiment experiments/mnist_scaling.ini

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <stdexcept>

#include "core/file.hpp"
#include "core/file_lock.hpp"
#include "core/named_file.hpp"
#include "core/own_file.hpp"
#include "core/printable.hpp"
#include "core/system_error.hpp"
#include "core/text_parts.hpp"
#include "program/flags/options.hpp"
#include "program/start/processors.hpp"
#include "program/start/remembered_links.hpp"
#include "run_tool.hpp"
#include "tools/experiment/check.hpp"
#include "tools/experiment/plot.hpp"
#include "tools/experiment/rank_loads.hpp"
#include "tools/experiment/record.hpp"
#include "tools/experiment/table.hpp"
#include "tools/processes/error_line.hpp"
#include "tools/processes/run_to_end.hpp"
#include "training/output_folder.hpp"

namespace tasuki::experiment {
namespace {

namespace fs = std::filesystem;
using processes::EndedProcess;
using processes::HowEnded;
using processes::last_words;
using processes::run_to_end;
using processes::take_over_signals;
using processes::was_interrupted;
using program::describe_machine;
using program::Options;
using program::parse_integer;

constexpr int some_failed = 1;

struct Settings {
  std::optional<std::string> file, folder, section, rerun;
  std::string plot = "svg";
  bool dry_run = false, tables_only = false;
};

void say(const std::string& line) {
  fmt::print("{}\n", printable_lines(line));
  std::fflush(stdout);
}

// Locks the folder against a second experiment until the process ends.
void lock(const fs::path& folder) {
  static std::vector<FileLock> held;
  if (auto taken = FileLock::try_lock(folder / "lock", fmt::format("pid {}\n", getpid())))
    held.push_back(std::move(*taken));
  else
    fail(ErrorKind::config, "another experiment runs in {} ({}); wait for it, or give --folder DIR",
         folder.string(), holder_of_lock(folder / "lock"));
}

// Runs a command whose output goes to `log`.
EndedProcess run_with_log(const std::vector<std::string>& command, const fs::path& log,
                          double timeout) {
  const Descriptor file = open_own_file(log, OwnFile::renew);
  return run_to_end(command, {file.get(), file.get()}, timeout);
}

// Also removes what a training program would take over, or what this program would read as the new
// run's. Other files stay.
void remove_former_run(const fs::path& result) {
  remove_results(result);
  remove_monitor_files(result);
  const fs::path link = result / program::link_file;
  std::error_code error;
  fs::remove(link, error);
  if (error) fail_because(error, ErrorKind::cannot_write, "cannot remove {}", link.string());
}

void run_one(const ExperimentPlan& plan, RunRecord& run) {
  const fs::path log = run.folder / "output.log", result = run.folder / "result";
  make_output_folder(run.folder.parent_path());
  make_own_folder(run.folder);
  make_own_folder(result);
  remove_former_run(result);
  std::error_code ignored;  // there may be none
  fs::rename(log, run.folder / "output.previous.log", ignored);
  forget_record(run);
  const EndedProcess ended = run_with_log(run.command, log, plan.timeout);
  if (!ended.is_clean)
    say(
        fmt::format("warning: a process of {} waits in the kernel and cannot be killed; it may "
                    "disturb later runs",
                    run.folder.string()));
  if (ended.how == HowEnded::interrupted) return;

  run.failure = describe_failure(ended, plan.timeout, read_own_file(log, own_log_limit));
  if (run.failure.empty()) {
    try {
      run.result = read_training_log(result / "log");
      run.result->wall_seconds = ended.seconds;
      run.origin = read_origin(result);
    } catch (const Error& error) {
      run.result.reset();
      run.failure = error.what();
    }
  }
  write_record(run);
}

std::string outcome(const RunRecord& run) {
  if (!run.result)
    return fmt::format("FAILED, {} ({}/output.log)", run.failure, run.folder.string());
  const auto& accuracy = run.result->accuracy;
  return fmt::format("{:.2f} s{}", run.result->seconds,
                     accuracy ? fmt::format(", accuracy {:.4f}", *accuracy) : "");
}

void run_what_is_missing(const ExperimentPlan& plan, std::vector<RunRecord>& runs) {
  std::vector<std::string> names = plan.varying();
  if (names.empty()) names = {"np", "nodes"};
  for (std::size_t i = 0; i < runs.size() && !was_interrupted(); ++i) {
    RunRecord& run = runs[i];
    std::string title = fmt::format("[{}/{}] {}", i + 1, runs.size(), run.settings.text(names));
    if (plan.repeats > 1) title += fmt::format(", run {}", run.settings.repeat);
    if (run.result) {
      say(fmt::format("{}: done before, {}", title, outcome(run)));
      continue;
    }
    run_one(plan, run);
    if (!was_interrupted()) say(fmt::format("{}: {}", title, outcome(run)));
  }
}

// Marks the runs of these rows of the table ("1,3" or "all") as not done; with `on_disk`, also in
// their records.
void forget_rows(const std::string& rows, std::vector<RunRecord>& runs, bool on_disk) {
  const auto count =
      std::ranges::count(runs, 1, [](const auto& run) { return run.settings.repeat; });
  std::vector<bool> is_chosen(static_cast<std::size_t>(count), rows == "all");
  for (const std::string& word : text_parts(rows, ',')) {
    if (rows == "all") break;
    try {
      is_chosen[static_cast<std::size_t>(parse_integer(word, {1, count})) - 1] = true;
    } catch (const std::invalid_argument&) {
      fail(ErrorKind::usage,
           "--rerun: expected rows of the table (1 to {}) separated by commas, or all, found '{}'",
           count, rows);
    }
  }
  std::size_t row = 0;
  for (RunRecord& run : runs) {
    if (run.settings.repeat == 1) ++row;
    if (!is_chosen[row - 1]) continue;
    if (on_disk)
      forget_record(run);
    else
      run.result.reset();
  }
}

void draw(const fs::path& folder) {
  const EndedProcess drawn =
      run_with_log({"gnuplot", folder / "plot.gp"}, folder / "plot.log", /*timeout=*/60);
  if (drawn.exit_code == 127)
    say(fmt::format(
        "gnuplot is not installed (Debian's gnuplot-nox): no plot was drawn; its script is {}",
        (folder / "plot.gp").string()));
  else if (drawn.exit_code != 0)
    say(fmt::format("gnuplot could not draw: {}", last_words(read_own_file(folder / "plot.log"))));
}

void write_tables(const ExperimentPlan& plan, const std::vector<RunRecord>& runs,
                  const Settings& settings, const fs::path& folder) {
  const std::vector<TableRow> rows = summarise(plan, runs);
  write_file(folder / "table.csv", csv_text(plan, runs));
  const std::string table = markdown_text(plan, rows, describe_machine());
  write_file(folder / "table.md", table);
  const fs::path plot = folder / ("plot." + settings.plot);
  check_own_file(plot);
  write_file(folder / "plot.gp", gnuplot_script(plan, rows, plot.string()));
  say('\n' + markdown_text(plan, rows, describe_machine(), line_width(stdout)));
  if (const std::string warning = warn_of_mixture(rows); !warning.empty()) say(warning + '\n');
  if (std::ranges::any_of(rows, [](const TableRow& row) { return row.result.has_value(); }))
    draw(folder);
  say(fmt::format("Tables and plot are in {}", folder.string()));
}

// One section of the file, or a file without sections.
struct Experiment {
  ExperimentPlan plan;
  fs::path folder;
  std::vector<RunRecord> runs;
};

std::ptrdiff_t count_missing(const Experiment& one) {
  return std::ranges::count_if(one.runs, [](const auto& run) { return !run.result.has_value(); });
}

int run_experiment(Experiment& one, const Settings& settings) {
  if (!settings.tables_only) run_what_is_missing(one.plan, one.runs);
  const auto missing = count_missing(one);
  if (was_interrupted()) {
    say(fmt::format("interrupted; the next start does the remaining {} of {} runs", missing,
                    one.runs.size()));
    return 130;
  }
  write_tables(one.plan, one.runs, settings, one.folder);
  if (missing == 0) return 0;
  say(fmt::format("{} of {} runs have no result; the next start tries them again", missing,
                  one.runs.size()));
  return some_failed;
}

int run_experiments(std::vector<Experiment>& all, const Settings& settings) {
  if (!settings.dry_run) {
    for (const Experiment& one : all) {
      make_output_folder(one.folder);
      lock(one.folder);
    }
    take_over_signals();
  }
  for (Experiment& one : all) {
    one.runs = read_records(one.plan, one.folder);
    if (settings.rerun) forget_rows(*settings.rerun, one.runs, /*on_disk=*/false);
    // All flags are checked before the first run starts.
    if (!settings.tables_only) check_flags(one.plan, one.runs);
  }
  int exit_code = 0;
  for (Experiment& one : all) {
    if (all.size() > 1) say(fmt::format("{}[{}]", settings.dry_run ? "# " : "", one.plan.section));
    if (settings.dry_run) {
      for (const RunRecord& run : one.runs)
        say(fmt::format("{}{}", run.result ? "# done: " : "", join(run.command, " ")));
      continue;
    }
    if (settings.rerun) forget_rows(*settings.rerun, one.runs, /*on_disk=*/true);
    exit_code = std::max(exit_code, run_experiment(one, settings));
    if (was_interrupted()) break;
  }
  return exit_code;
}

// All sections, or the one chosen by --section.
std::vector<Experiment> experiments_of(const Settings& settings, const fs::path& programs) {
  std::vector<Experiment> all;
  const fs::path folder =
      settings.folder.value_or((fs::path("results") / fs::path(*settings.file).stem()).string());
  std::vector<std::string> names;
  for (ExperimentPlan& plan :
       parse_experiments(read_text_file(*settings.file), *settings.file, programs)) {
    names.push_back(plan.section);
    if (settings.section && plan.section != *settings.section) continue;
    const fs::path own = plan.section.empty() ? folder : folder / plan.section;
    all.push_back({std::move(plan), own, {}});
  }
  if (all.empty())
    fail(ErrorKind::usage, "--section: {} has no section [{}]{}", *settings.file, *settings.section,
         names.front().empty() ? "" : fmt::format("; it has {}", join(names, ", ")));
  if (settings.rerun && all.size() > 1)
    fail(ErrorKind::usage, "--rerun: {} has several experiments; choose one with --section",
         *settings.file);
  return all;
}

// `tasuki-experiment FILE ...` is short for `tasuki-experiment --file FILE ...`.
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && !arguments[0].starts_with('-'))
    arguments.insert(arguments.begin(), "--file");
  return arguments;
}

int run(int argc, char** argv) {
  Settings settings;
  Options options("tasuki-experiment",
                  "runs a grid of training programs from an INI file, continues one that was "
                  "interrupted, and makes tables and a plot",
                  "tasuki-experiment experiments/mnist_scaling.ini");
  options.group("Experiment");
  options.add("file,f", settings.file, "none", "FILE",
              "the experiment; as the first argument it needs no flag (examples: experiments/)");
  options.add(
      "folder,o", settings.folder, "auto", "DIR",
      "folder for runs and tables; `auto`: results/<name of the file>, with a folder for each "
      "section");
  options.add("section", settings.section, "all", "NAME", "run only this section of the file");
  options
      .add("dry-run", settings.dry_run,
           "check all flags and print the commands without running them")
      .in_short("check all flags and print the commands");
  options
      .add("rerun", settings.rerun, "none", "ROWS",
           "repeat the runs of these rows of the table (`1,3`, or `all`), for example because "
           "they were made with another version, machine or data set")
      .in_short("rows of the table to run again");
  options
      .add("tables-only", settings.tables_only,
           "make the tables of finished runs without starting any run")
      .in_short("make the tables without starting runs");
  options.add("plot", settings.plot, std::vector<std::string>{"svg", "png"}, "FORMAT",
              "format of the plot");
  options.appendix(experiment_help());
  const Options::Request request = options.parse(arguments_of(argc, argv));
  if (request != Options::Request::run) {
    fmt::print("{}", options.text(request));
    return 0;
  }
  if (!settings.file)
    fail(ErrorKind::usage,
         "no experiment was given; expected: tasuki-experiment FILE.ini (see "
         "--help)");
  if (settings.rerun && settings.tables_only)
    fail(ErrorKind::usage, "--rerun repeats runs, --tables-only starts none; leave one out");
  const fs::path program = fs::read_symlink("/proc/self/exe");
  std::vector<Experiment> all = experiments_of(settings, program.parent_path());
  return run_experiments(all, settings);
}

}  // namespace
}  // namespace tasuki::experiment

int main(int argc, char** argv) {
  return tasuki::run_tool([&] { return tasuki::experiment::run(argc, argv); });
}
