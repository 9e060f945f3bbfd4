// Asks a training program about its flags before it is started with many ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tasuki::processes {

// Whether a program may know --print-config, which to others may mean something else. Tasuki's
// programs name the library that has it; a script that passes its flags on to one says so by naming
// the flag.
bool may_have_print_config(const std::filesystem::path& program);

// A program's command line with more flags, which win over earlier ones: they come after the
// others, but before operands that follow "--".
std::vector<std::string> with_flags(std::vector<std::string> words,
                                    const std::vector<std::string>& flags);

struct ConfigAnswer {
  int exit_code = 0;
  bool timed_out = false;  // after a minute
  std::string out, err;
};
// Starts a program as a single process, with --print-config after its other flags, and returns its
// answer. `is_interrupted`: whether this process is asked to end, which ends the program. An error
// of kind io if a process of the program cannot be killed.
ConfigAnswer ask_for_config(const std::vector<std::string>& words,
                            const std::function<bool()>& is_interrupted);

}  // namespace tasuki::processes
