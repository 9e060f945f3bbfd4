#include "tools/supervisor/program.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "core/error.hpp"
#include "core/text_parts.hpp"
#include "program/flags/config_file.hpp"
#include "program/flags/options_builtin.hpp"
#include "tools/processes/error_line.hpp"
#include "tools/processes/print_config.hpp"

namespace tasuki::supervisor {
namespace {

namespace fs = std::filesystem;

bool is_executable(const fs::path& file) {
  std::error_code not_there;
  return fs::is_regular_file(file, not_there) && access(file.c_str(), X_OK) == 0;
}

bool begins_settings(std::string_view line) {
  return line.starts_with("# ") && line.ends_with("read back with --config FILE");
}

bool is_of_settings(std::string_view line) {
  return line.empty() || line.front() == '#' || line.find('=') != std::string_view::npos;
}

// The answer to --print-config within everything that the program prints; empty if it is missing.
std::map<std::string, std::string> parse_settings(const std::string& text) {
  std::string lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (lines.empty() ? !begins_settings(line) : !is_of_settings(line)) continue;
    lines += line + '\n';
  }
  std::map<std::string, std::string> settings;
  for (const auto& line : program::parse_config(lines, "--print-config"))
    settings[line.name] = line.value;
  return settings;
}

// Whether the command line has one of these flags, with which Tasuki's programs print something and
// end.
bool has_flag(const std::vector<std::string>& words,
              std::initializer_list<std::string_view> names) {
  const auto end = std::ranges::find(words, "--");
  return std::any_of(words.begin(), end, [&](std::string word) {
    std::ranges::replace(word, '_', '-');
    return std::ranges::any_of(names, [&](std::string_view name) {
      if (word == fmt::format("--{}", name)) return true;
      // Also with an operand, the word to look for.
      return name == program::builtin::help &&
             (word.starts_with("--help=") || (word.starts_with("-h") && !word.starts_with("--")));
    });
  });
}

// The command line without all occurrences of a flag with a value, spelled in full ("--out").
std::vector<std::string> without_flag(std::vector<std::string> words, const std::string& flag) {
  for (auto word = words.begin(); word != words.end() && *word != "--";) {
    const bool is_alone = *word == flag && std::next(word) != words.end();
    if (is_alone)
      word = words.erase(word, word + 2);
    else if (word->starts_with(flag + '='))
      word = words.erase(word);
    else
      ++word;
  }
  return words;
}

}  // namespace

bool Program::can_resume() const {
  if (!config.contains("out") || !config.contains("resume")) return false;
  for (const char* instead : {"dry-run", "find-batchsize"})
    if (const auto found = config.find(instead); found != config.end() && found->second == "true")
      return false;
  return true;
}

std::optional<fs::path> Program::resumed_from() const {
  const auto found = config.find("resume");
  if (found == config.end() || found->second == "none" || found->second == "auto")
    return std::nullopt;
  return found->second;
}

bool Program::resumes_by_itself() const {
  const auto found = config.find("resume");
  return found != config.end() && found->second == "auto";
}

std::optional<std::int64_t> Program::shards() const {
  const auto found = config.find("shards");
  if (found == config.end() || found->second == "none") return std::nullopt;
  return std::strtoll(found->second.c_str(), nullptr, 10);
}

bool Program::keeps_global_batch() const {
  const auto found = config.find("global-batch");
  if (found == config.end()) return false;
  return !found->second.empty() &&
         found->second.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<std::string> Program::words_to_continue(const fs::path& folder, bool has_saved) const {
  std::vector<std::string> continued = without_flag(words, "--out");
  std::vector<std::string> flags = {"--out", folder.string()};
  if (has_saved || !resumed_from()) {
    continued = without_flag(std::move(continued), "--resume");
    flags.insert(flags.end(), {"--resume", "auto"});
    if (const auto found = config.find("overwrite");
        found != config.end() && found->second == "true")
      flags.emplace_back("--overwrite=false");
  }
  return processes::with_flags(std::move(continued), flags);
}

std::string find_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  if (path == nullptr) return "";
  for (const std::string& folder : text_parts(path, ':'))
    if (const fs::path file = fs::path(folder.empty() ? "." : folder) / name; is_executable(file))
      return file;
  return "";
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (!is_executable(name))
      fail(ErrorKind::missing, "there is no program {} that can be started", name);
    return name;
  }
  if (std::string found = find_in_path(name); !found.empty()) return found;
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path() / name;
  if (!is_executable(beside))
    fail(ErrorKind::missing,
         "there is no program {0} in PATH or beside tasuki-run (in this folder: ./{0})", name);
  return beside;
}

CheckedProgram check_program(const std::vector<std::string>& words,
                             const std::function<bool()>& is_interrupted) {
  CheckedProgram checked;
  checked.program.words = words;
  std::string& name = checked.program.words.front();
  name = find_program(name);
  if (!processes::may_have_print_config(name)) return checked;

  const processes::ConfigAnswer answer =
      processes::ask_for_config(checked.program.words, is_interrupted);
  if (answer.timed_out) fail(ErrorKind::hang, "{} does not answer --print-config", name);
  if (answer.exit_code != 0) {
    checked.answered = {answer.exit_code, answer.out, answer.err};
    if (!processes::is_error_line(processes::last_words(answer.err)))
      checked.answered->err +=
          fmt::format("error: {} --print-config ended with exit code {}; expected its settings\n",
                      name, answer.exit_code);
    return checked;
  }
  namespace builtin = program::builtin;
  if (!has_flag(words, {builtin::print_config}))
    checked.program.config = parse_settings(answer.out);
  if (!checked.program.is_known() &&
      has_flag(words, {builtin::help, builtin::version, builtin::print_config}))
    checked.answered = {0, answer.out, answer.err};
  return checked;
}

}  // namespace tasuki::supervisor
