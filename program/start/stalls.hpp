// The flags of all programs that say when a stalled job is warned about and ended.
#pragma once

#include "program/flags/options.hpp"
#include "program/training_settings.hpp"

namespace tasuki::program {

// --stall-warning, --stall-timeout and --silence-timeout.
void add_stall_flags(Options& options, StallSettings& settings);

// Applies them (job/stall_limits.hpp).
void apply(const StallSettings& settings);

}  // namespace tasuki::program
