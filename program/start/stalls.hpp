// When a job that stands still is warned about and ended: flags that all programs share.
#pragma once

#include "tasuki/program/flags/options.hpp"
#include "tasuki/program/training_settings.hpp"

namespace tasuki::program {

// --stall-warning, --stall-timeout and --silence-timeout.
void add_stall_flags(Options& options, StallSettings& settings);

// Puts them into effect (job/watchdog.hpp).
void apply(const StallSettings& settings);

}  // namespace tasuki::program
