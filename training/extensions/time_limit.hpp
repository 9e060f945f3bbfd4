// time_limit: stops a job that has run for a given time.
#pragma once

#include <memory>

#include "tasuki/training/extension.hpp"

namespace tasuki {

// Asks for a stop (core/stop_request.hpp) when rank 0's process has run for so many seconds, its
// start included: all ranks end after the same iteration, save and throw Stopped, as after SIGUSR1.
// The clock is read after each iteration, so that the time taken is longer by up to two iterations,
// by what extensions do in them, and by saving. Earlier runs of a continued training do not count.
std::unique_ptr<Extension> time_limit(double seconds);

}  // namespace tasuki
