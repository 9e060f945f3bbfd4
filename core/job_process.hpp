// The process that runs a job, as distinct from children that user code forks: these inherit its
// signal handlers, its exit functions and its objects, but must not act for the job.
#pragma once

namespace tasuki {

// While a job runs: this process is the one that runs it.
void begin_job_process() noexcept;
void end_job_process() noexcept;

// False in a forked child of the process that runs a job. True where no job runs, as in a process
// that a host program has forked and that trains without run_job. Async-signal-safe.
bool is_job_process() noexcept;

}  // namespace tasuki
