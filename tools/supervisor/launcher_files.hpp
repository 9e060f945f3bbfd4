// Files that mpirun and its ranks leave on this machine when they are killed.
#pragma once

#include <sys/types.h>

namespace tasuki::supervisor {

// Removes the session folder of an mpirun that has ended, and its ranks' shared memory, which is
// named after the job number in that folder. Does nothing if mpirun has already removed them.
void remove_files_of(pid_t mpirun);

// Marks the session folder of an mpirun that this process has started, so that a later tasuki-run
// may remove it if this process is killed as well. mpirun removes the mark with the folder. False:
// mpirun has not created its folder yet.
bool mark_files_of(pid_t mpirun);

// Removes the files of marked mpiruns that have ended, unless a process still maps them.
void remove_marked_files();

}  // namespace tasuki::supervisor
