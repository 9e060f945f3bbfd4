// What a kernel does and a GPU would not allow.
#pragma once

namespace tasuki::simulated {

// Ends the process with this line.
[[noreturn]] void defect(const char* what);

}  // namespace tasuki::simulated
