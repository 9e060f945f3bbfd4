// Programs that an experiment starts, each with all the processes that it makes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tasuki::experiment {

enum class HowEnded { by_itself, timed_out, interrupted };

struct EndedProcess {
  HowEnded how = HowEnded::by_itself;
  int exit_code = 0;  // 128 + signal when a signal ended it
  double seconds = 0;
};

// From now on SIGINT and SIGTERM end the running program and keep later calls of run_to_end() from
// starting one; processes that lose their parent become children of this one.
void take_over_signals();
bool was_interrupted();

// Runs `words` (the first is looked up in PATH) in a new process group, with empty standard input,
// and output and errors in `log`. After `timeout` seconds, or when this process is asked to end,
// the group gets SIGTERM, so that mpirun ends its ranks, and 10 seconds later SIGKILL. When the
// call returns, none of the processes that it started is left.
EndedProcess run_to_end(const std::vector<std::string>& words, const std::filesystem::path& log,
                        double timeout);

}  // namespace tasuki::experiment
