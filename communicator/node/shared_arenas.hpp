// SharedArenas: storages in node-shared memory, and the addresses of the other ranks' counterparts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "communicator/mpi/mpi.hpp"
#include "communicator/node/shared_memory.hpp"
#include "tensor/storage.hpp"

namespace tasuki {

class SharedArenas {
 public:
  // The blocks of one collective allocation, by rank in the node.
  struct Segment {
    std::uint32_t number = 0;  // the same on all ranks, from 1
    std::vector<SharedMapping> blocks;
  };
  // A place in this rank's block of a segment; segment is nullptr for other memory.
  struct Place {
    std::shared_ptr<const Segment> segment;
    std::size_t offset = 0;
  };

  // Collective over the node. Storages may outlive this object, and ranks may release them in any
  // order.
  std::shared_ptr<Storage> allocate(std::size_t bytes, MPI_Comm node);
  Place find(const void* address) const;

 private:
  // Shared with the storages, which remove themselves from it.
  struct Table;
  std::shared_ptr<Table> table_ = make_table();
  static std::shared_ptr<Table> make_table();
  std::uint32_t segments_made_ = 0;
};

}  // namespace tasuki
