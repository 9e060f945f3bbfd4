// time_limit: stops a job that has run for a given time.
#pragma once

#include <memory>

#include "training/extension.hpp"

namespace tasuki {

// Requests a stop (core/stop_request.hpp) when the job has run for this many seconds, its start
// included (core/job_process.hpp, on rank 0): all ranks end after the same iteration, save and
// throw Stopped, as after SIGUSR1. The clock is read after each iteration, so the job runs longer
// by up to two iterations, their extensions, and saving. Restarts by tasuki-run belong to one job;
// earlier runs from which a training continues do not count.
std::unique_ptr<Extension> time_limit(double seconds);

}  // namespace tasuki
