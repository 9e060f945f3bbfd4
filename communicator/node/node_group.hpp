// The ranks of one node as a group that works on each other's memory: the transport inside a node
// on CPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tasuki/communicator/mpi/mpi.hpp"
#include "tasuki/communicator/node/shared_arenas.hpp"
#include "tasuki/communicator/node/shared_counter.hpp"
#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

// The values of all ranks of the node, in memory that each can read and write.
struct SharedValues {
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  std::int64_t count = 0;
  std::vector<std::byte*> of_rank;

  // Addresses of element `begin` at every rank.
  std::vector<void*> at(std::int64_t begin) const;
  // Combines elements [begin, end) of all ranks, in the order of ranks, into those of
  // `destinations` (ranks; empty: all).
  void reduce(std::int64_t begin, std::int64_t end, std::span<const int> destinations = {}) const;
  // Copies elements [begin, end) of one rank to another.
  void copy(int source, int destination, std::int64_t begin, std::int64_t end) const;
};

// Elements [begin, end) of `count` that are the share of one of `parts`; shares differ by no more
// than a cache line's worth and start at one, so that ranks do not write to the same line.
struct Slice {
  std::int64_t begin, end;
};
Slice share_of(std::int64_t count, std::size_t element_bytes, int part, int parts);

class NodeGroup {
 public:
  // Collective over the ranks that share memory.
  explicit NodeGroup(MpiComm node);

  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm comm() const { return node_.get(); }
  std::shared_ptr<Storage> allocate(std::size_t bytes) {
    return arenas_.allocate(bytes, node_.get());
  }

  using Work = std::function<void(const SharedValues&)>;
  // Collective. Calls `work` on every rank with the values of all, and returns when all ranks are
  // done with it. Values in storages of one allocation are worked on where they are, in one call,
  // unless `in_place` forbids it; any others pass through shared memory in pieces of at most
  // `piece_bytes`, one call each. All ranks must bring the same type and number of elements and
  // operation, else all throw (kind disagreement).
  void exchange(const Tensor& values, ReduceOp op, std::size_t piece_bytes, bool in_place,
                const Work& work);
  // Number of the allocation in which the values are, the same on all ranks; 0 for other memory.
  std::uint32_t segment_of(const Tensor& values) const;

  // A counter of `rank` for use by `work`; keeps its value between exchanges.
  SharedCounter& counter(int rank);

 private:
  struct Offer;    // what a rank brings to an exchange
  struct Control;  // the group's own shared memory
  struct Slot;

  void barrier() const;
  Slot& slot(int rank) const;
  void require_equal_offers() const;
  bool offers_share_a_segment() const;
  static void work_alone(const Tensor& values, ReduceOp op, std::size_t piece_bytes,
                         const Work& work);
  void exchange_in_pieces(const Tensor& values, ReduceOp op, std::size_t piece_bytes,
                          const Work& work);

  MpiComm node_;
  int rank_, size_;
  std::vector<SharedMapping> control_;  // the first rank's
  SharedArenas arenas_;
  std::shared_ptr<Storage> staging_;
};

}  // namespace tasuki
