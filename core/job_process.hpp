// Tells the process that runs a job from children that user code forks, and says how long the job
// has run. Children inherit signal handlers, exit functions and objects, but must not act for the
// job.
#pragma once

namespace tasuki {

// Between these calls this process is the one that runs the job.
void begin_job_process() noexcept;
void end_job_process() noexcept;

// False in a forked child of the process that runs a job. True where no job runs, as in a process
// that a host program has forked and that trains without run_job. Async-signal-safe.
bool is_job_process() noexcept;

// Whether an error of this process ends its job (run_job, JobGuard). Otherwise an error is an
// exception, and other ranks that wait for this one have to be told.
void set_errors_end_job(bool do_end) noexcept;
bool errors_end_job() noexcept;

// tasuki-run sets this variable for each start of the ranks: the seconds that it had run by then.
// An age depends neither on the clocks of several hosts nor on a clock that is set meanwhile.
inline constexpr const char* job_age_variable = "TASUKI_JOB_AGE";

// Seconds since the job was started. Under tasuki-run this includes all restarts (but not the time
// that the launcher took to start this process); otherwise it is the time since this library was
// loaded. Monotonic; time in which the machine is suspended does not count.
double job_age();
// Only this process's part.
double process_age();

}  // namespace tasuki
