#include "tools/processes/print_config.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/file.hpp"
#include "program/flags/options_builtin.hpp"
#include "tools/processes/memory_file.hpp"
#include "tools/processes/run_to_end.hpp"

namespace tasuki::processes {
namespace {

namespace fs = std::filesystem;
namespace builtin = program::builtin;

constexpr double longest_answer = 60;  // seconds

}  // namespace

bool may_have_print_config(const fs::path& program) {
  std::error_code not_there;
  if (!fs::is_regular_file(program, not_there)) return false;
  const std::string contents = read_file(program);
  return contents.find("libtasuki_program") != std::string::npos ||
         contents.find(builtin::print_config) != std::string::npos;
}

std::vector<std::string> with_flags(std::vector<std::string> words,
                                    const std::vector<std::string>& flags) {
  words.insert(std::ranges::find(words, "--"), flags.begin(), flags.end());
  return words;
}

ConfigAnswer ask_for_config(const std::vector<std::string>& words,
                            const std::function<bool()>& is_interrupted) {
  const MemoryFile out, err;
  const EndedProcess ended =
      run_to_end(with_flags(words, {fmt::format("--{}", builtin::print_config)}),
                 {out.descriptor(), err.descriptor()}, longest_answer, is_interrupted);
  if (!ended.is_clean)
    fail(ErrorKind::io,
         "a process of {} --{} cannot be killed; it waits in the kernel, perhaps for a disk",
         words.front(), builtin::print_config);
  return {ended.exit_code, ended.how == HowEnded::timed_out, out.text(), err.text()};
}

}  // namespace tasuki::processes
