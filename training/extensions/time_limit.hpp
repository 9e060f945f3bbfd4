// time_limit: stops a job that has run for a given time.
#pragma once

#include <memory>

#include "training/extension.hpp"

namespace tasuki {

// Asks for a stop (core/stop_request.hpp) when the job has run for so many seconds
// (core/job_process.hpp, on rank 0), its start included: all ranks end after the same iteration,
// save and throw Stopped, as after SIGUSR1. The clock is read after each iteration, so that the
// time taken is longer by up to two iterations, by what extensions do in them, and by saving.
// Restarts by tasuki-run belong to one job; other runs that a training continues from do not count.
std::unique_ptr<Extension> time_limit(double seconds);

}  // namespace tasuki
