// Starts other programs.
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

}  // namespace tasuki::processes
