// Allreduce between nodes: a pipelined ring.
//
// The vector is divided into one block per rank, and blocks into chunks. In the first p - 1 steps
// (reduce-scatter) each rank sends a block to the next rank and adds the block that it receives
// from the previous rank to its own values, which it sends in the following step. In the next p - 1
// steps (allgather) the finished blocks are passed on. Each rank sends 2 (p - 1) / p of the vector,
// the minimum for any p (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters
// of workstations", JPDC 2009). Each chunk is sent on as soon as it is received and added, with
// several under way, so that sending, receiving and adding overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tasuki/communicator/mpi/mpi.hpp"
#include "tasuki/core/range.hpp"

namespace tasuki {

// Which chunk (elements of the vector) each message of one rank carries. A pure function of its
// arguments.
class RingPlan {
 public:
  // `chunk_bytes`: length of a chunk at most (but a cache line at least).
  RingPlan(std::int64_t count, std::size_t element_bytes, int rank, int ranks,
           std::int64_t chunk_bytes);

  int ranks() const { return ranks_; }
  std::int64_t chunks_per_block() const { return chunks_; }
  std::int64_t longest_chunk() const { return longest_chunk_; }
  // Messages are numbered in the order in which they are sent and received.
  std::int64_t messages() const { return 2 * (ranks_ - 1) * chunks_; }
  Range sent(std::int64_t message) const { return chunk(rank_ - step(message), message); }
  Range received(std::int64_t message) const { return chunk(rank_ - step(message) - 1, message); }
  // Whether a received chunk is added to this rank's values (reduce-scatter) or replaces them
  // (allgather).
  bool is_added(std::int64_t message) const { return step(message) < ranks_ - 1; }
  // Whether a received chunk holds the sum over all ranks afterwards.
  bool is_final(std::int64_t message) const { return step(message) >= ranks_ - 2; }

  // All chunks, in the order in which this rank's values are first needed, and in which their sums
  // are complete.
  std::vector<Range> order_of_need() const;
  std::vector<Range> order_of_completion() const;
  // Positions in order_of_need(): of the chunk that a message of the first step carries, and of the
  // one to which a message of the reduce-scatter is added.
  static std::int64_t need_of_sent(std::int64_t message) { return 2 * message; }
  std::int64_t need_of_received(std::int64_t message) const {
    return message < chunks_ ? 2 * message + 1 : chunks_ + message;
  }

 private:
  std::int64_t step(std::int64_t message) const { return message / chunks_; }
  Range chunk(std::int64_t block, std::int64_t message) const;

  std::int64_t count_;
  std::int64_t line_;  // elements in a cache line; chunks begin at multiples of it
  int rank_, ranks_;
  std::int64_t chunks_, longest_chunk_;
};

// Called with one chunk.
using ChunkFunction = std::function<void(Range)>;

// Combines `values` of all ranks of `comm` in place. Calls `prepare` before it reads a chunk of
// this rank's values, in order_of_need(), and `finished` when a chunk's result is complete, in
// order_of_completion(), so that work inside the node overlaps with the network. Results have the
// same bits on all ranks and in every run.
void ring_allreduce(void* values, const RingPlan& plan, DType type, ReduceOp op, MPI_Comm comm,
                    const ChunkFunction& prepare, const ChunkFunction& finished);

}  // namespace tasuki
