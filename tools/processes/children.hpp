// Starts other programs, and ends what they leave behind.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

namespace tasuki::processes {

// Descriptors that become a new process's standard streams.
struct Streams {
  int in = STDIN_FILENO, out = STDOUT_FILENO, err = STDERR_FILENO;
};

// Starts `words` (the first is looked up in PATH) in a new process group, with no signal blocked.
// The new process gets the signal `at_our_end` when this process ends, however it ends. If the
// program cannot be started, its exit code is 127, and its standard error says why.
pid_t start_process(const std::vector<std::string>& words, const Streams& streams, int at_our_end);

// A descriptor of /dev/null, for a process without input or output.
int open_nothing();

// The exit code, or 128 + signal if a signal ended the process.
int exit_code_of(int wait_status);

// Reaps all children that have ended, orphans among them, and returns this child's wait status if
// it was one of them.
std::optional<int> reap(pid_t child);

// Orphans are descendants whose parents have ended.
//
// Makes this process the new parent of descendants that lose their parent (a subreaper). The
// children that it has at this call do not count as orphans: a shell that became this program by
// `exec` started them. An error of kind io if the kernel refuses.
void adopt_orphans();

// Kills all orphans, and the children that they leave, until none is left. Returns false if some
// are left after a second: a process that waits in the kernel, for a disk for example, cannot be
// killed before the wait ends.
bool end_orphans();

}  // namespace tasuki::processes
