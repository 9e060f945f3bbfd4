// The shared memory that a block may have: 48 KiB, and beyond that as much as its kernel was
// allowed (cudaFuncSetAttribute) on a device that has it.
#pragma once

#include <cstddef>

namespace tasuki::simulated {

// Of all kernels on all devices.
inline constexpr std::size_t shared_bytes_without_opt_in = std::size_t{48} << 10;
// Of a block on this device, by its compute capability.
std::size_t most_shared_bytes();

// What CUDA allows a block: dynamic memory, and all. `function`: the kernel's address.
struct SharedLimits {
  std::size_t dynamic_bytes = shared_bytes_without_opt_in;
  std::size_t bytes = shared_bytes_without_opt_in;
};
SharedLimits shared_limits(const void* function);

// Remembers what a kernel's blocks declare, for cudaFuncGetAttributes.
void note_static_shared(const void* function, std::size_t bytes);

}  // namespace tasuki::simulated
