// NodeArray: memory that the ranks of a node have once.
//
// Each rank sees it in two places. What a rank writes in shared() all ranks see. What it writes in
// own() is a change of its own (the pages are copied on write), until it publishes or forgets it;
// what it has not written there it sees as it is in shared(). So code that knows nothing of other
// ranks may read and write own(), and changes that all ranks make alike are published by one of
// them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tasuki/communicator/mpi/mpi.hpp"
#include "tasuki/core/range.hpp"
#include "tasuki/tensor/storage.hpp"

namespace tasuki {

class NodeArray {
 public:
  // Zeroed memory, freed when no rank has storages of it. Collective over the ranks of the node;
  // null, on all of them, where the system does not say which pages a process has written
  // (/proc/self/pagemap). Throws if memory cannot be shared (share_memory).
  static std::unique_ptr<NodeArray> make(std::size_t bytes, MPI_Comm node);
  ~NodeArray();

  const std::shared_ptr<Storage>& shared() const { return shared_; }
  const std::shared_ptr<Storage>& own() const { return own_; }

  // What this rank has written in own(): whole pages, as ranges of bytes.
  std::vector<Range> written() const;
  // Copies what is written() in `bytes` of own() to shared(). The other ranks neither read these
  // bytes nor publish them meanwhile.
  void publish(const std::vector<Range>& written, Range bytes) const;
  // Gives back the pages: own() is as shared() there.
  void forget(const std::vector<Range>& written) const;
  // Waits for all ranks of the node; what was written before is seen by all afterwards.
  void barrier() const;

 private:
  struct Memory;
  NodeArray(std::shared_ptr<Memory> memory, std::size_t bytes);

  std::shared_ptr<Memory> memory_;
  std::shared_ptr<Storage> shared_, own_;
};

}  // namespace tasuki
