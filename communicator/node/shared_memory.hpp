// Memory that the ranks of one node have in common.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace tasuki {

// A mapping of shared memory into this process. The memory itself lives until the last process that
// mapped it has unmapped it or ended, however it ended: it has no name (any more) that could stay.
class SharedMapping {
 public:
  SharedMapping() = default;
  // Maps all of an open file; `populate` has the pages made at once instead of one by one later.
  SharedMapping(int file, std::size_t bytes, bool populate);
  ~SharedMapping();
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Collective over the ranks of a node: each makes `bytes` of zeroed memory (any size, 0 for none)
// and maps that of all others. Returns the mappings by rank.
//
// The memory is anonymous (memfd_create) and found by the others through /proc/<pid>/fd, so that
// the size of /dev/shm does not matter. Where that is not allowed (or wanted: tests), it is a file
// in /dev/shm that is removed as soon as all have opened it: only a rank that is killed within
// these few milliseconds leaves its file (/dev/shm/tasuki-<user>-<process>-<n>). When neither
// works, every rank throws (kind unavailable).
std::vector<SharedMapping> share_memory(std::size_t bytes, MPI_Comm node,
                                        bool allow_anonymous = true);

}  // namespace tasuki
