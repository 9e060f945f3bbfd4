// Programs that an experiment starts, each with all the processes it makes.
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

// From now on SIGINT and SIGTERM end the program that runs, and what run_to_end() is called for
// later does not start; processes that lose their parent become this one's children.
void take_over_signals();
bool was_interrupted();

// Runs `words` (the first is looked up in PATH) in a process group of its own, with standard input
// empty and output and errors in `log`. After `timeout` seconds, or when this process is to end,
// the group gets SIGTERM, so that mpirun ends its ranks, and after 10 more seconds SIGKILL. When it
// returns no process that was started is left.
EndedProcess run_to_end(const std::vector<std::string>& words, const std::filesystem::path& log,
                        double timeout);

}  // namespace tasuki::experiment
