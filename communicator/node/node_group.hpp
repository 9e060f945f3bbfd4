// NodeGroup: the ranks of one node, which read and write each other's memory. It is the transport
// inside nodes on CPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "communicator/algorithms/shard_tree.hpp"
#include "communicator/gradient_view.hpp"
#include "communicator/mpi/mpi.hpp"
#include "communicator/node/shared_arenas.hpp"
#include "communicator/node/shared_counter.hpp"
#include "communicator/sliced_work.hpp"
#include "core/range.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// How the ranks of a node add sums of shards (shard_tree.hpp). Each has several arrays.
struct ShardsOfNode {
  // `ranks`: of the node's ranks among the groups of `sources`.
  ShardsOfNode(const ShardSources& sources, std::span<const int> ranks);

  struct Source {
    std::size_t rank, array;  // of the node; of the rank
  };
  std::vector<Source> sources;  // in the order of the sum
  TreeOrder order;
  std::int64_t stride;  // elements from one array to the next one
};

// The values of all ranks of the node, in memory that each can read and write.
struct SharedValues {
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  std::int64_t count = 0;
  std::vector<std::byte*> of_rank;
  std::int64_t first = 0;  // the first element's number among all values of the exchange
  // Set for sums of shards: these are then the node's sums of float32, several arrays at each
  // destination.
  std::shared_ptr<const ShardsOfNode> shards = nullptr;

  // The same values; if `gradients` are sums of shards, reduce() adds them in their order. `ranks`:
  // those of the node. An error of kind internal if the values are not used in place.
  SharedValues with_shards_of(const GradientView& gradients, std::span<const int> ranks) const;
  // Addresses of element `begin` at every rank.
  std::vector<void*> at(std::int64_t begin) const;
  // The part of a range that these values contain. The range counts from the first value of the
  // exchange, the result from `first`.
  Range here(Range of_all) const;
  // Combines elements [begin, end) of all ranks, in the order of ranks, and writes the result to
  // the ranks `destinations` (empty: all).
  void reduce(std::int64_t begin, std::int64_t end, std::span<const int> destinations = {}) const;
  // reduce() for sums of float32; returns whether one of them is not finite.
  bool sum_and_search(std::int64_t begin, std::int64_t end,
                      std::span<const int> destinations = {}) const;
  // Combines them into memory of the caller; all ranks' values stay as they are.
  void reduce_into(void* result, std::int64_t begin, std::int64_t end) const;
  // Copies elements [begin, end) of one rank to another.
  void copy(int source, int destination, std::int64_t begin, std::int64_t end) const;
  // Copies only the elements of `piece` that lie in one of the ranges `needed`.
  void copy(int source, int destination, Range piece, std::span<const Range> needed) const;

 private:
  // The arguments of reduce_arrays() for elements from `begin` on.
  struct Operands {
    std::vector<const void*> sources;
    std::vector<void*> destinations;
  };
  Operands operands(std::int64_t begin, std::span<const int> destinations) const;
  bool sum_shards(std::int64_t begin, std::int64_t end, std::span<const int> destinations,
                  bool searches) const;
};

// The share of part `part`, one of `parts`, in `count` elements. Shares differ by at most a cache
// line, and each begins with one, so ranks do not write to the same line.
Range share_of(std::int64_t count, std::size_t element_bytes, int part, int parts);

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
  // Collective. Calls `work` on every rank with the values of all ranks, and returns when all ranks
  // have done it. If all values are in storages of one allocation and `in_place` is true, `work` is
  // called once, on the values themselves. Otherwise they pass through shared memory in pieces of
  // at most `piece_bytes`, with one call for each. If type, number of elements or operation differ
  // between ranks, all throw (kind disagreement).
  void exchange(const Tensor& values, ReduceOp op, std::size_t piece_bytes, bool in_place,
                const Work& work);
  // Collective. Starts exchange() in place, in slices. `start` is called when the values of all
  // ranks are there, and returns this rank's work. The values are in storages of one allocation, or
  // the rank is alone on its node. The node begins no other exchange before this one is done. The
  // result must not outlive this object.
  using StartWork = std::function<std::unique_ptr<SlicedWork>(const SharedValues&)>;
  std::unique_ptr<SlicedWork> start_exchange(const Tensor& values, ReduceOp op, StartWork start);
  // Collective. Combines elements parts[rank()] of all ranks' values into `own`, memory of this
  // rank; the values stay as they are. Each rank has one part, and parts do not overlap. Uses
  // shared memory and throws as exchange() does.
  void reduce_parts(const Tensor& values, std::span<const Range> parts, ReduceOp op,
                    std::size_t piece_bytes, void* own);
  // Collective, in place. Copies each part, elements `elements` of rank `rank`, to all ranks of the
  // node. Parts do not overlap and are the same on all ranks.
  struct Part {
    int rank = 0;  // of this group
    Range elements;
  };
  void share_parts(const Tensor& values, std::span<const Part> parts, std::int64_t call_bytes);
  // The number of the allocation that holds the values, the same on all ranks; 0: other memory.
  std::uint32_t segment_of(const Tensor& values) const;

  // Collective, by exchange(), for a node that has all ranks of the job. Combines all values of a
  // view, or for each rank the values that it needs (GradientView::needed).
  void combine(const GradientView& values, ReduceOp op, std::size_t piece_bytes, bool in_place);
  // Between the two calls, combine() searches sums of float32 for numbers that are not finite.
  // end_search() returns whether any rank has found one. Each is called by all ranks, without
  // waiting.
  void begin_search();
  bool end_search();

  // A counter of `rank` for `work`; keeps its value between exchanges.
  SharedCounter& counter(int rank);

 private:
  struct Offer;    // what a rank brings to an exchange
  struct Control;  // the group's own shared memory
  struct Slot;
  class SlicedExchange;

  SharedBarrier& shared_barrier() const;
  void barrier() const;
  // A barrier in two parts: all ranks have arrived when has_passed() returns true for the number
  // that arrive() returned.
  std::uint32_t arrive() const;
  bool has_passed(std::uint32_t generation) const;
  Slot& slot(int rank) const;
  void put_offer(const Tensor& values, ReduceOp op) const;
  // After put_offer() of all ranks: their values if these are in one allocation. All ranks get the
  // same result.
  std::optional<SharedValues> offered(const Tensor& values, ReduceOp op) const;
  // put_offer(), a barrier, offered().
  std::optional<SharedValues> exchange_offers(const Tensor& values, ReduceOp op);
  void require_equal_offers() const;
  bool offers_share_a_segment() const;
  // Staging memory of all ranks, at least `bytes`, for values of this type. Collective.
  SharedValues staging(std::size_t bytes, DType dtype, ReduceOp op);
  static void work_alone(const Tensor& values, ReduceOp op, std::size_t piece_bytes,
                         const Work& work);
  void exchange_in_pieces(const Tensor& values, ReduceOp op, std::size_t piece_bytes,
                          const Work& work);
  void reduce_share(const SharedValues& shared, Range part, std::span<const int> destinations);

  MpiComm node_;
  int rank_, size_;
  std::vector<SharedMapping> control_;  // the first rank's
  SharedArenas arenas_;
  std::shared_ptr<Storage> staging_;
  bool searches_ = false;
  std::uint64_t search_ = 0;  // the number of the latest search
};

}  // namespace tasuki
