// Memory shared by the ranks of a node.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace tasuki {

// A mapping of shared memory into this process. The memory has no name that could stay behind: it
// is freed when the last process that maps it unmaps it or ends for any reason.
class SharedMapping {
 public:
  SharedMapping() = default;
  // Maps all of an open file. `populate` allocates the pages at once instead of on first use.
  SharedMapping(int file, std::size_t bytes, bool populate);
  // The same memory, but what this process writes here is visible to itself only: it gets copies of
  // the pages.
  static SharedMapping copied_on_write(int file, std::size_t bytes);
  ~SharedMapping();
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  SharedMapping(int file, std::size_t bytes, int flags);

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Each rank of a node allocates `bytes` of zeroed memory (any size; 0: none) and maps the memory of
// all ranks. Returns the mappings by rank. Collective over the node.
//
// The memory is anonymous (memfd_create); other ranks open it through /proc/<pid>/fd, so the size
// of /dev/shm does not matter. If that is not permitted, or `allow_anonymous` is false (in tests),
// it is a file in /dev/shm that is removed as soon as all ranks have opened it. Only a rank that is
// killed within these few milliseconds leaves its file (/dev/shm/tasuki-<user>-<process>-<n>)
// behind. If neither works, all ranks throw (kind unavailable).
std::vector<SharedMapping> share_memory(std::size_t bytes, MPI_Comm node,
                                        bool allow_anonymous = true);

// Shared memory that only the node's first rank allocates and all ranks map twice. `sparse`: pages
// are allocated when they are first written; if there is no memory then, the system ends the
// process.
struct SharedBlock {
  SharedMapping shared, copied_on_write;
};
SharedBlock share_block(std::size_t bytes, MPI_Comm node, bool sparse = false);

}  // namespace tasuki
