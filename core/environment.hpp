// Environment variables that switch something on.
#pragma once

namespace tasuki {

// Whether the variable is 1. False if it is 0, empty or not set; anything else is an error of kind
// usage, on all ranks that have it.
bool is_switched_on(const char* variable);

}  // namespace tasuki
