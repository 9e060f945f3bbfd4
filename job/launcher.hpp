// How a rank works together with mpirun, which started it.
#pragma once

#include <string_view>

namespace tasuki {

// Installs handlers for the launcher's SIGCONT and SIGTERM, so that a job that failed on one host
// ends on all hosts at once (launcher.cpp says how). SIGTERM still ends the process, after its last
// words (core/stop_request.hpp). Does nothing for signals that the program handles already, and in
// processes that mpirun did not start.
void answer_launcher();

// The beginning of a rank's last words if the launcher ends it.
inline constexpr std::string_view how_jobs_end = "the job was ended";

// Whether this process is rank 0, or the lowest rank of its host, as far as the launcher's
// environment variables tell before MPI_Init.
bool is_first_rank();
bool is_first_rank_of_host();

}  // namespace tasuki
