// NodeArray: memory that exists once on a node and is used by all of its ranks.
//
// Each rank has it at two addresses. All ranks see what a rank writes to shared(). Only the rank
// itself sees what it writes to own(): the system gives it copies of these pages, until the rank
// publishes or forgets them. All other pages of own() show what is in shared(). So code that knows
// nothing of other ranks may read and write own(). If all ranks make the same change there, one of
// them publishes it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "communicator/mpi/mpi.hpp"
#include "core/range.hpp"
#include "tensor/storage.hpp"

namespace tasuki {

class Communicator;

class NodeArray {
 public:
  // Zeroed memory, freed when no rank has storages of it. Collective over the ranks of the node;
  // null, on all of them, where the system does not say which pages a process has written
  // (/proc/self/pagemap). Throws if memory cannot be shared (share_memory).
  static std::unique_ptr<NodeArray> make(std::size_t bytes, MPI_Comm node);
  ~NodeArray();

  const std::shared_ptr<Storage>& shared() const { return shared_; }
  const std::shared_ptr<Storage>& own() const { return own_; }

  // The pages of own() that this rank has written to, as ranges of bytes.
  std::vector<Range> written() const;
  // Copies those parts of `written` that lie in `bytes` from own() to shared(). Meanwhile the other
  // ranks must neither read nor publish these bytes.
  void publish(const std::vector<Range>& written, Range bytes) const;
  // Gives the copies of these pages back to the system: own() shows shared() there again.
  void forget(const std::vector<Range>& written) const;
  // Waits for all ranks of the node. Afterwards all see what was written before.
  void barrier() const;

 private:
  struct Memory;
  NodeArray(std::shared_ptr<Memory> memory, std::size_t bytes);

  std::shared_ptr<Memory> memory_;
  std::shared_ptr<Storage> shared_, own_;
};

// A NodeArray of all ranks of a communicator, which must be on one node. Collective over them;
// null, on all of them, where Communicator::shares_memory() is false or NodeArray::make() returns
// null.
std::unique_ptr<NodeArray> allocate_once(Communicator& communicator, std::size_t bytes);
// Communicator::barrier() through the array of its ranks: about a microsecond once all have
// arrived.
void barrier(Communicator& communicator, const NodeArray& array);

}  // namespace tasuki
