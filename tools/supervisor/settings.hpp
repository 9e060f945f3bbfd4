// The settings of tasuki-run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/flags/options.hpp"

namespace tasuki::supervisor {

enum class LauncherKind { mpirun, srun };

struct SupervisorSettings {
  std::optional<std::int64_t> np;
  std::optional<std::string> hostfile;
  LauncherKind launcher = LauncherKind::mpirun;
  std::optional<std::string> mpirun_args;   // quoted as in a shell
  std::vector<std::string> launcher_words;  // the words of mpirun_args
  bool print_command = false, verbose = false;
  bool passes_stdin = false;  // to rank 0

  std::int64_t max_restarts = 3;
  bool is_max_restarts_given = false;
  std::optional<std::int64_t> min_np;  // nothing: as many as at the first start
  double host_timeout = 600;           // seconds to wait for a host that does not answer
  double stop_timeout = 120;           // seconds to save after a request to stop
  bool is_stop_timeout_given = false;

  std::vector<std::string> program;  // its name and flags
};

struct CommandLine {
  program::Options::Request request = program::Options::Request::run;
  std::string text;  // to print, for any request except run
  SupervisorSettings settings;
};

// `arguments`: tasuki-run's, without its own name. The first word that is neither a flag nor a
// flag's value is the program, and the words after it are the program's; so is everything after
// "--". Errors are of kind usage.
CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace tasuki::supervisor
