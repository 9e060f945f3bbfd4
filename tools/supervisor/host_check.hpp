// Finds out which hosts answer.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tools/supervisor/hostfile.hpp"
#include "tools/supervisor/mca_parameters.hpp"
#include "tools/supervisor/signals.hpp"

namespace tasuki::supervisor {

// ssh's options to ask nothing and give up soon.
inline constexpr std::array ssh_without_questions = {"-o", "BatchMode=yes", "-o",
                                                     "ConnectTimeout=5"};

// The words to which mpirun appends a host and a command to run it there: plm_rsh_agent, or ssh
// with settings that ask nothing and give up soon; then plm_rsh_args.
std::vector<std::string> remote_shell(const McaParameters& parameters);

// Runs `true` on all hosts except this machine at once, and returns the hosts where that succeeds
// within `longest`. Nothing if a signal asked for the end of the job meanwhile; `signal` is then
// that signal.
std::optional<std::vector<Host>> answering(const std::vector<Host>& hosts,
                                           const std::vector<std::string>& remote_shell,
                                           std::chrono::seconds longest, const Signals& signals,
                                           int& signal);

}  // namespace tasuki::supervisor
