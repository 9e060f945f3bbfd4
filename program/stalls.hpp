// When a job that stands still is warned about and ended: flags that all programs share.
#pragma once

#include "tasuki/program/options.hpp"

namespace tasuki::program {

struct StallSettings {
  double warning = 60, timeout = 300, silence = 15;  // seconds, 0: never
};

// --stall-warning, --stall-timeout and --silence-timeout.
void add_stall_options(Options& options, StallSettings& settings);

// Makes them count from now on (job/watchdog.hpp).
void apply(const StallSettings& settings);

}  // namespace tasuki::program
