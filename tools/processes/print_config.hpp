// Asking a training program about its flags before it is started with many ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tasuki::processes {

// Whether a program may know --print-config; others may take the flag for something else. Programs
// of Tasuki name the library that has it; a script says that it hands its flags on to one by naming
// the flag.
bool may_have_print_config(const std::filesystem::path& program);

// The words of a program's command line with more flags, which win over earlier ones: after the
// others, but before operands that follow "--".
std::vector<std::string> with_flags(std::vector<std::string> words,
                                    const std::vector<std::string>& flags);

struct ConfigAnswer {
  int exit_code = 0;
  bool timed_out = false;  // after a minute
  std::string out, err;
};
// What a program, started as a single process, says to --print-config after its other flags.
// `is_interrupted`: whether this process is asked to end, which ends the program. An error of kind
// io if a process of the program cannot be killed.
ConfigAnswer ask_for_config(const std::vector<std::string>& words,
                            const std::function<bool()>& is_interrupted);

}  // namespace tasuki::processes
