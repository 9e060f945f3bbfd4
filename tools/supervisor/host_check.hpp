// Which hosts answer.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tools/supervisor/hostfile.hpp"
#include "tools/supervisor/mca_parameters.hpp"
#include "tools/supervisor/signals.hpp"

namespace tasuki::supervisor {

// The words to which a host and a command are appended to run the command there, as mpirun does:
// plm_rsh_agent, or ssh, which asks nothing and gives up soon, and plm_rsh_args.
std::vector<std::string> remote_shell(const McaParameters& parameters);

// Runs `true` on all hosts at once but this machine, and returns those where that works within
// `longest`. Nothing if a signal asked for the end of the job meanwhile; `signal` is that.
std::optional<std::vector<Host>> answering(const std::vector<Host>& hosts,
                                           const std::vector<std::string>& remote_shell,
                                           std::chrono::seconds longest, const Signals& signals,
                                           int& signal);

}  // namespace tasuki::supervisor
