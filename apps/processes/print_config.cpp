#include "processes/print_config.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "processes/run_to_end.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/program/flags/options_builtin.hpp"

namespace tasuki::processes {
namespace {

namespace fs = std::filesystem;
namespace builtin = program::builtin;

constexpr double longest_answer = 60;  // seconds

std::string take_text(const fs::path& file) {
  std::string text = read_file(file);
  fs::remove(file);
  return text;
}

}  // namespace

bool may_have_print_config(const fs::path& program) {
  std::error_code not_there;
  if (!fs::is_regular_file(program, not_there)) return false;
  const std::string contents = read_file(program);
  return contents.find("libtasuki_program") != std::string::npos ||
         contents.find(builtin::print_config) != std::string::npos;
}

ConfigAnswer ask_for_config(std::vector<std::string> words,
                            const std::function<bool()>& is_interrupted) {
  const fs::path folder = fs::temp_directory_path();
  const fs::path out = folder / fmt::format("tasuki-config-{}.out", getpid()),
                 err = folder / fmt::format("tasuki-config-{}.err", getpid());
  words.push_back(fmt::format("--{}", builtin::print_config));
  const EndedProcess ended = run_to_end(words, {out, err}, longest_answer, is_interrupted);
  return {ended.exit_code, ended.how == HowEnded::timed_out, take_text(out), take_text(err)};
}

}  // namespace tasuki::processes
