// Which instructions the CPU's backend computes with.
#pragma once

#include <string>

namespace tasuki {

// The most capable set that oneDNN uses on this processor, by oneDNN's name: "avx512_core_vnni".
// ONEDNN_MAX_CPU_ISA in the environment lowers it.
std::string instruction_set();

}  // namespace tasuki
