// The process that runs a job, as distinct from children that user code forks: these inherit its
// signal handlers, its exit functions and its objects, but must not act for the job.
#pragma once

namespace tasuki {

// Makes this process the one that runs the job; until then it is the one that loaded this library.
void become_job_process() noexcept;

// False in a forked child. Async-signal-safe.
bool is_job_process() noexcept;

}  // namespace tasuki
