#include "supervisor/program.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "processes/error_line.hpp"
#include "processes/print_config.hpp"
#include "supervisor/restart.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/program/flags/config_file.hpp"
#include "tasuki/program/flags/options_builtin.hpp"

namespace tasuki::supervisor {
namespace {

namespace fs = std::filesystem;

bool is_executable(const fs::path& file) {
  std::error_code not_there;
  return fs::is_regular_file(file, not_there) && access(file.c_str(), X_OK) == 0;
}

std::map<std::string, std::string> parse_settings(const std::string& text) {
  std::map<std::string, std::string> settings;
  for (const auto& line : program::parse_config(text, "--print-config"))
    settings[line.name] = line.value;
  return settings;
}

bool is_config(const std::string& text) {
  const std::string first = text.substr(0, text.find('\n'));
  return first.starts_with("# ") && first.ends_with("read back with --config FILE");
}

bool asks_for_config(const std::vector<std::string>& words) {
  return std::ranges::find(words, fmt::format("--{}", program::builtin::print_config)) !=
         words.end();
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
  std::vector<std::string> all = words;
  all.insert(all.end(), {"--out", folder.string()});
  if (has_saved || !resumed_from()) {
    all.insert(all.end(), {"--resume", "auto"});
    if (const auto found = config.find("overwrite");
        found != config.end() && found->second == "true")
      all.emplace_back("--overwrite=false");
  }
  return all;
}

std::string find_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
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
  if (answer.exit_code == 0 && is_config(answer.out) && !asks_for_config(words)) {
    checked.program.config = parse_settings(answer.out);
  } else if (answer.exit_code == 0 && !answer.out.empty()) {
    checked.answered = {0, answer.out, answer.err};  // --help, --version and the like
  } else if (is_final(answer.exit_code) &&
             processes::is_error_line(processes::last_words(answer.err))) {
    checked.answered = {answer.exit_code, answer.out, answer.err};
  }
  return checked;
}

}  // namespace tasuki::supervisor
