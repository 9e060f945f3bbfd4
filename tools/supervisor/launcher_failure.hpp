// What mpirun and srun say on standard error when a job fails: the texts of Open MPI 4.1
// (share/openmpi/help-*.txt) and Slurm.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tasuki::supervisor {

// Why a job ended.
struct Cause {
  std::string line;  // "rank 1 on node2: ..."
  std::optional<int> rank;
  std::string host;
};

// "rank 1 on node2: the cause", or "error: the cause".
Cause parse_error_line(std::string_view line);

// What kept the launcher from starting the ranks.
enum class StartFailure {
  none,      // it has started them
  refused,   // flags, slots, or a program or folder that it cannot use: another start would end
             // alike
  no_daemon  // its daemon did not start on a host, which may be away
};

struct LauncherFailure {
  std::optional<Cause> cause;
  StartFailure start = StartFailure::none;
  bool says_more = false;  // than the cause does, so that its text is to be shown
};

// A paragraph of mpirun's between its lines of dashes; nothing if it is another one.
std::optional<LauncherFailure> parse_paragraph(const std::string& text);

// The paragraph about a daemon that did not start, once ranks have run: mpirun prints the same for
// a daemon that it loses later.
LauncherFailure lost_daemon();

// A line of mpirun's or srun's that stands alone; nothing if it is another one.
std::optional<LauncherFailure> parse_launcher_line(const std::string& line);

// A line of ssh's: which host it does not reach. mpirun says so without the name.
std::optional<Cause> parse_ssh_line(const std::string& line);

}  // namespace tasuki::supervisor
