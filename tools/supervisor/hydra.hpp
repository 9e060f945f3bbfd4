// The command line and settings of Hydra, the launcher of MPICH and of Intel MPI. Its remarks on
// standard error are interpreted with the other launchers' (launcher_failure.hpp).
#pragma once

#include <string>
#include <vector>

#include "tools/supervisor/hostfile.hpp"
#include "tools/supervisor/launch.hpp"

namespace tasuki::supervisor {

// mpiexec's words up to the program. Hydra takes any number of ranks, starts them as root, and
// gives them this process's environment and working folder on every host, without being asked.
// - ssh gets options by which it notices a lost host, unless the user has set such options;
// - Intel MPI binds ranks to cores by default: not if a rank may have more than one.
Launch launch_with_hydra(const SupervisorSettings& settings, const Surroundings& around,
                         const Placement& placement);

// The text of a hostfile: "node1:4"; a host without slots is one slot for Hydra.
std::string hydra_hostfile(const std::vector<Host>& hosts);

// The words to which a host and a command are appended to run it there, as mpiexec does with these
// words of its command line.
std::vector<std::string> hydra_remote_shell(MpiRuntime runtime,
                                            const std::vector<std::string>& launcher_words);

}  // namespace tasuki::supervisor
