// How long this job has run.
#pragma once

namespace tasuki {

// tasuki-run sets this variable for the processes that it starts: the time of its own start, in
// seconds since 1970.
inline constexpr const char* job_start_variable = "TASUKI_JOB_START";

// Seconds since the job was started: under tasuki-run with all its restarts, otherwise since this
// process was (as far as it knows: since this library was loaded). A clock that was set back does
// not make it less than the latter, in which the time that the machine is suspended does not count.
double job_age();

}  // namespace tasuki
