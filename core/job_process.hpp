// The process that runs a job, as distinct from children that user code forks, and how long the job
// has run. Children inherit the process's signal handlers, its exit functions and its objects, but
// must not act for the job.
#pragma once

namespace tasuki {

// While a job runs: this process is the one that runs it.
void begin_job_process() noexcept;
void end_job_process() noexcept;

// False in a forked child of the process that runs a job. True where no job runs, as in a process
// that a host program has forked and that trains without run_job. Async-signal-safe.
bool is_job_process() noexcept;

// tasuki-run sets this variable for each start of the ranks: how long, in seconds, it had run by
// then. Clocks of several hosts, or a clock that is set meanwhile, do not matter to an age.
inline constexpr const char* job_age_variable = "TASUKI_JOB_AGE";

// Seconds since the job was started: under tasuki-run with all its restarts (but without the time
// in which the launcher started this process), otherwise since this process was (as far as it
// knows: since this library was loaded). Monotonic; the time that the machine is suspended does not
// count.
double job_age();
// Only this process's part of it.
double process_age();

}  // namespace tasuki
