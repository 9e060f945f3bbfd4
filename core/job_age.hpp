// How long this job has run.
#pragma once

namespace tasuki {

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
