// Which instructions the CPU's backend computes with.
#pragma once

#include <cstdint>
#include <string>

namespace tasuki {

// The most capable set that oneDNN uses on this processor, by oneDNN's name: "avx512_core_vnni".
// limit_instructions(), or ONEDNN_MAX_CPU_ISA in the environment, lowers it.
std::string instruction_set();

enum class InstructionLimit : std::uint8_t { none, avx2, avx512 };
// From now on uses none beyond this set, in oneDNN and in kernels whose sums depend on it. (Loops
// that are compiled for several sets have the same bits in all of them.) Call it before anything
// computes. A usage error if the processor has not even this set, or if it is too late.
void limit_instructions(InstructionLimit limit);

}  // namespace tasuki
