// What a rank has to do with the program that started it, mpirun.
#pragma once

#include <string_view>

namespace tasuki {

// Makes this process answer the launcher's SIGCONT and SIGTERM so that a job that failed on one
// host ends on all at once (in launcher.cpp: how). SIGTERM ends the process as before, after its
// last words (core/stop_request.hpp). Signals that the program handles already, and processes that
// mpirun did not start, are left alone.
void answer_launcher();

// What a rank says first when the launcher ends it, before its last words.
inline constexpr std::string_view how_jobs_end = "the job was ended";

// Whether this is rank 0, or the lowest one of its host, as far as a process knows before MPI_Init.
bool is_first_rank();
bool is_first_rank_of_host();

}  // namespace tasuki
