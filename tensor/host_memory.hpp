// How much memory this process can still take.
#pragma once

#include <cstddef>
#include <filesystem>

#include "tasuki/tensor/out_of_memory.hpp"

namespace tasuki {

// Where the kernel says what there is.
struct MemoryFiles {
  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroups = "/sys/fs/cgroup";
};

// Bytes that can still be taken under a limit, and the limit.
struct HostMemory {
  std::size_t free = 0, total = 0;
};

// The narrowest of all limits: the machine's memory (free is what the kernel would give back, too:
// caches), the control groups that the process is in (version 2, all of them up to the root;
// version 1), and the process's own limits (ulimit -v, ulimit -d). What cannot be read does not
// limit.
// With `sharing` processes that want as much each, what they have in common (the machine, the
// groups) is divided among them; a process's own limits are not.
HostMemory find_host_memory(const MemoryFiles& files = {}, int sharing = 1);

// Bytes that are left alone: for page tables, the kernel's own needs and processes that take memory
// at the same time.
inline constexpr std::size_t host_memory_reserve = std::size_t{64} << 20;

// Throws OutOfMemory when `bytes` more would go over a limit or come so near to the end of the
// machine's memory that the kernel may kill a process: memory is only taken when it is written to,
// and then nobody can say no any more. What the pool of this process keeps for later is given back
// first. Takes tens of microseconds.
void require_host_memory(std::size_t bytes);

// The error for `bytes` that were not there. What this process holds is what its pool does.
OutOfMemory out_of_host_memory(std::size_t bytes);

}  // namespace tasuki
