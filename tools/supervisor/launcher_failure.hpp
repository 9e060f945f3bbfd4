// Interprets what mpirun and srun print on standard error when a job fails: the texts of Open MPI
// 4.1 (share/openmpi/help-*.txt), PRRTE 3.0 (Open MPI 5) and Hydra (MPICH 4.0 and 5.0, Intel MPI
// 2021.18) as far as they were seen, and Slurm.
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

// Why the launcher did not start the ranks.
enum class StartFailure {
  none,      // it did start them
  refused,   // flags, slots, or a program or folder that it cannot use: another start would fail in
             // the same way
  no_daemon  // its daemon did not start on a host, which may be down
};

struct LauncherFailure {
  std::optional<Cause> cause;
  StartFailure start = StartFailure::none;
  bool says_more = false;  // than the cause, so its text is shown
};

// Interprets a paragraph of mpirun's between lines of dashes; nothing if it is unknown.
std::optional<LauncherFailure> parse_paragraph(const std::string& text);

// The paragraph about a daemon that did not start, after ranks have run: mpirun prints the same for
// a daemon that it loses later. `host`: empty if it does not say where.
LauncherFailure lost_daemon(const std::string& host);

// Interprets a single line of mpirun's, Hydra's or srun's; nothing if it is unknown.
std::optional<LauncherFailure> parse_launcher_line(const std::string& line);

// The host that ssh cannot reach, from ssh's line; mpirun reports this without the name.
std::optional<Cause> parse_ssh_line(const std::string& line);

}  // namespace tasuki::supervisor
