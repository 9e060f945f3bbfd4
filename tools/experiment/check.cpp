#include "tools/experiment/check.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "core/error.hpp"
#include "program/flags/option_value.hpp"
#include "program/flags/options_builtin.hpp"
#include "tools/processes/error_line.hpp"
#include "tools/processes/print_config.hpp"
#include "tools/processes/run_to_end.hpp"

namespace tasuki::experiment {
namespace {

namespace fs = std::filesystem;
namespace builtin = program::builtin;
using processes::ConfigAnswer;
using program::nearest;

template <class... Args>
[[noreturn]] void refuse(const std::string& place, fmt::format_string<Args...> format,
                         Args&&... args) {
  fail(ErrorKind::config, "{}: {}", place, fmt::format(format, std::forward<Args>(args)...));
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string meant = nearest(name, candidates);
  return meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant);
}

// Names of the flags, "name = value" a line.
std::vector<std::string> flags_in(const std::string& config) {
  std::vector<std::string> names = {std::string(builtin::config)};
  std::istringstream text(config);
  for (std::string line; std::getline(text, line);) {
    const auto end = line.find(" = ");
    if (end != std::string::npos && line.find_first_of(" #") == end)
      names.push_back(line.substr(0, end));
  }
  return names;
}

void check_program(const ExperimentPlan& plan) {
  if (!plan.is_program_beside || fs::exists(plan.program)) return;
  const fs::path program = plan.program;
  std::vector<std::string> there;
  for (const auto& entry : fs::directory_iterator(program.parent_path()))
    if (entry.is_regular_file() && access(entry.path().c_str(), X_OK) == 0)
      there.push_back(entry.path().filename().string());
  const std::string name = program.filename().string();
  refuse(plan.place_of("program"), "program: there is no {} in {}{}", name,
         program.parent_path().string(), did_you_mean(name, there));
}

void check_names(const ExperimentPlan& plan, const std::vector<std::string>& flags) {
  std::vector<std::string> known = experiment_keys();
  known.insert(known.end(), flags.begin(), flags.end());
  for (const GridAxis& axis : plan.axes)
    if (std::ranges::find(known, axis.name) == known.end())
      refuse(plan.place_of(axis.name), "'{}' is neither a flag of {} nor a key of experiments{}",
             axis.name, fs::path(plan.program).filename().string(), did_you_mean(axis.name, known));
}

// The line of the program's error, if it begins with a flag.
std::string place_of_error(const ExperimentPlan& plan, const std::string& error) {
  for (const GridAxis& axis : plan.axes)
    if (error.starts_with(fmt::format("--{}", axis.name))) return plan.place_of(axis.name);
  return plan.file;
}

}  // namespace

void check_flags(const ExperimentPlan& plan, const std::vector<RunRecord>& runs) {
  const auto is_missing = [](const RunRecord& run) { return !run.result.has_value(); };
  if (std::ranges::none_of(runs, is_missing)) return;
  check_program(plan);
  if (!processes::may_have_print_config(plan.program)) return;
  const ConfigAnswer standard =
      processes::ask_for_config({plan.program}, processes::was_interrupted);
  if (standard.exit_code == 0) check_names(plan, flags_in(standard.out));
  std::set<std::vector<std::string>> asked;
  int row = 0;
  for (const RunRecord& run : runs) {
    if (run.settings.repeat == 1) ++row;
    const std::vector<std::string> words = plan.program_with_flags(run.settings);
    if (processes::was_interrupted() || !is_missing(run) || !asked.insert(words).second) continue;
    const ConfigAnswer answer = processes::ask_for_config(words, processes::was_interrupted);
    // Any other failure depends on the moment or the machine.
    if (answer.exit_code != static_cast<int>(ErrorKind::usage) &&
        answer.exit_code != static_cast<int>(ErrorKind::config))
      continue;
    std::string error = processes::last_words(answer.out + answer.err);
    if (error.starts_with("error: ")) error.erase(0, std::string("error: ").size());
    refuse(place_of_error(plan, error), "row {} ({}): {}", row, run.settings.text(plan.varying()),
           error);
  }
}

}  // namespace tasuki::experiment
