// Runs programs to their end, each with all the processes that it starts.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tasuki::processes {

enum class HowEnded { by_itself, timed_out, interrupted };

struct EndedProcess {
  HowEnded how = HowEnded::by_itself;
  int exit_code = 0;  // 128 + signal when a signal ended it
  double seconds = 0;
  bool is_clean = true;  // none of its processes remains
};

// From now on, SIGINT and SIGTERM end the program that run_to_end() runs, and keep later calls from
// starting one. Also makes this process the parent of orphans (orphans.hpp), which run_to_end()
// ends.
void take_over_signals();
// Whether one of these signals has come.
bool was_interrupted();

// Destinations of a program's output: two descriptors, or twice the same one.
struct OutputFiles {
  int out, err;
};

// Runs `words` (the first is looked up in PATH) in a new process group, with empty standard input.
// After `timeout` seconds, or when this process is interrupted, the group gets SIGTERM, so that
// mpirun ends its ranks, and 10 seconds later SIGKILL. When the call returns, no process that it
// started remains, or `is_clean` is false (end_orphans).
EndedProcess run_to_end(const std::vector<std::string>& words, const OutputFiles& files,
                        double timeout,
                        const std::function<bool()>& is_interrupted = was_interrupted);

}  // namespace tasuki::processes
