// NodeArray: memory that exists once on a node, for all of its ranks.
//
// Each rank has it at two addresses. All ranks see what a rank writes to shared(). Only the rank
// itself sees what it writes to own(): the system gives it copies of these pages, until it
// publishes or forgets them. All other pages of own() show the contents of shared(). So code that
// knows nothing of other ranks may read and write own(). If all ranks make the same change there,
// one of them publishes it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "communicator/mpi/mpi.hpp"
#include "core/range.hpp"
#include "tensor/storage.hpp"

namespace tasuki {

class Communicator;

class NodeArray {
 public:
  // Zeroed memory, freed when no rank has storages of it. Null on all ranks if the system does not
  // tell which pages a process has written (/proc/self/pagemap). Throws if memory cannot be shared
  // (share_memory). Collective over the ranks of the node.
  // `written`: if given, the bytes that will be written at most, and only pages that are written
  // take memory; otherwise it is there from the beginning.
  static std::unique_ptr<NodeArray> make(std::size_t bytes, MPI_Comm node,
                                         std::optional<std::size_t> written = {});
  ~NodeArray();

  const std::shared_ptr<Storage>& shared() const { return shared_; }
  const std::shared_ptr<Storage>& own() const { return own_; }

  // The pages of own() that this rank has written to, as ranges of bytes.
  std::vector<Range> written() const;
  // Copies the parts of `written` that lie in `bytes` from own() to shared(). Meanwhile other ranks
  // must neither read nor publish these bytes.
  void publish(const std::vector<Range>& written, Range bytes) const;
  // Returns the copies of these pages to the system: own() then shows shared() there again.
  void forget(const std::vector<Range>& written) const;
  // Returns whole pages in these bytes to the system, for all ranks; they are zero when they are
  // used again. Meanwhile no rank may use them.
  void give_back(Range bytes) const;
  // Waits for all ranks of the node, which then see everything written before.
  void barrier() const;

 private:
  struct Memory;
  NodeArray(std::shared_ptr<Memory> memory, std::size_t bytes);

  std::shared_ptr<Memory> memory_;
  std::shared_ptr<Storage> shared_, own_;
};

// A NodeArray for all ranks of a communicator, which must be on one node. Null on all ranks if
// Communicator::shares_memory() is false or NodeArray::make() returns null. Collective.
std::unique_ptr<NodeArray> allocate_once(Communicator& communicator, std::size_t bytes,
                                         std::optional<std::size_t> written = {});
// Communicator::barrier() through an array of its ranks: takes about a microsecond once all have
// arrived.
void barrier(Communicator& communicator, const NodeArray& array);

}  // namespace tasuki
