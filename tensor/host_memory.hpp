// How much memory this process can still take.
#pragma once

#include <cstddef>

#include "core/control_groups.hpp"
#include "core/range.hpp"
#include "tensor/out_of_memory.hpp"

namespace tasuki {

// Where the kernel reports memory.
using MemoryFiles = ControlGroupFiles;

// Bytes that can still be allocated under a limit, and the limit.
struct HostMemory {
  std::size_t free = 0, total = 0;
};

// The tightest of all limits: the machine's memory (free includes what the kernel would reclaim:
// caches), the control groups that the process is in (version 2, all of them up to the root;
// version 1), and the process's own limits (ulimit -v, ulimit -d). Limits that cannot be read are
// ignored. With `sharing` processes that each need as much, common limits (the machine, the groups)
// are divided among them; a process's own limits are not.
HostMemory find_host_memory(const MemoryFiles& files = {}, int sharing = 1);

// Bytes that are left free: for page tables, the kernel's needs and processes that allocate memory
// at the same time.
inline constexpr std::size_t host_memory_reserve = std::size_t{64} << 20;

// Throws OutOfMemory if `bytes` more would exceed a limit or come so near to the end of the
// machine's memory that the kernel may kill a process: memory is only taken when it is written to,
// and then it is too late for an error. Memory that the pool of this process has cached is freed
// first. Takes tens of microseconds.
void require_host_memory(std::size_t bytes);

// With TASUKI_CHECK_MEMORY=1 in the environment, as in the tests, memory that is handed out to be
// written is filled with bytes of which every floating-point number is NaN, so that a value that is
// not written shows.
bool spoils_unwritten();
inline constexpr int spoilt_byte = 0xff;  // of float64, float32, float16 and bfloat16
// Fills it; otherwise does nothing. GPUs' memory is filled where it is allocated.
void spoil_unwritten(void* memory, std::size_t bytes);

// Returns the whole pages that lie in these bytes from `begin` on, which is the beginning of a
// page, to the system. They are zero when they are used again. `is_shared`: of memory that several
// processes share, for all of them.
void give_back_pages(std::byte* begin, Range bytes, bool is_shared = false);

// Asks for large pages in these bytes: they are mapped 512 at a time, which makes memory that is
// given back and used again many times cheaper. Advice only.
void prefer_large_pages(std::byte* begin, std::size_t bytes);

// The error for `bytes` that were not available. The memory in use by this process is its pool's.
OutOfMemory out_of_host_memory(std::size_t bytes);

}  // namespace tasuki
