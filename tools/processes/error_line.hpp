// Finds the line of a program's output that says why it failed.
#pragma once

#include <string>
#include <string_view>

namespace tasuki::processes {

// Whether a line is an error in the form of job/run_job.hpp: "rank 1 on node2: ..." from one rank,
// "error: ..." from all ranks or a program without ranks.
bool is_error_line(std::string_view line);

// The last such line, or else the last line with words.
std::string last_words(std::string_view output);

}  // namespace tasuki::processes
