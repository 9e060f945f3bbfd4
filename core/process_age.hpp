// How long this process has run.
#pragma once

namespace tasuki {

// Seconds since the process was started, as far as it knows: since this library was loaded. Time in
// which the machine is suspended does not count.
double process_age();

}  // namespace tasuki
