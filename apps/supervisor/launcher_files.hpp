// Files that mpirun and its ranks leave on this machine where they are killed.
#pragma once

#include <sys/types.h>

namespace tasuki::supervisor {

// Removes the session folder of an mpirun that has ended, and its ranks' shared memory, which is
// named after the job number in that folder. Does nothing if mpirun has removed them itself.
void remove_files_of(pid_t mpirun);

}  // namespace tasuki::supervisor
