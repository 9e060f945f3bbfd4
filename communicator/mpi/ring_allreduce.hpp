// Allreduce between nodes: a ring in many small pieces.
//
// The vector is cut into as many blocks as there are ranks, and blocks into chunks. In the first
// p - 1 steps (reduce-scatter) each rank sends a block to the next rank and adds what comes from
// the previous one to the block that it will send in the step after; in the next p - 1 steps
// (allgather) the finished blocks go round. Each rank sends 2 (p - 1) / p of the vector, the least
// possible, for any p (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", JPDC 2009). A chunk goes on as soon as it has come and been added, with several
// under way, so that sending, receiving and adding overlap and no step waits for a whole block.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tasuki/communicator/mpi/mpi.hpp"

namespace tasuki {

// Elements [begin, end).
struct Chunk {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

// Which chunk each message of one rank carries. A pure function of its arguments.
class RingPlan {
 public:
  RingPlan(std::int64_t count, std::size_t element_bytes, int rank, int ranks);

  int ranks() const { return ranks_; }
  std::int64_t chunks_per_block() const { return chunks_; }
  std::int64_t longest_chunk() const { return longest_chunk_; }
  // Messages are numbered in the order in which they are sent, which is that of their arrival.
  std::int64_t messages() const { return 2 * (ranks_ - 1) * chunks_; }
  Chunk sent(std::int64_t message) const { return chunk(rank_ - step(message), message); }
  Chunk received(std::int64_t message) const { return chunk(rank_ - step(message) - 1, message); }
  // Whether what arrives is added to (reduce-scatter) or replaces (allgather) what is there.
  bool is_added(std::int64_t message) const { return step(message) < ranks_ - 1; }
  // Whether it is the sum over all ranks after that.
  bool is_final(std::int64_t message) const { return step(message) >= ranks_ - 2; }

  // All chunks in the order in which this rank's own values are first needed, and in which the
  // results are complete.
  std::vector<Chunk> order_of_need() const;
  std::vector<Chunk> order_of_completion() const;
  // Places in order_of_need() of the chunk that a message of the first step carries, and of the
  // one to which a message of the reduce-scatter is added.
  static std::int64_t need_of_sent(std::int64_t message) { return 2 * message; }
  std::int64_t need_of_received(std::int64_t message) const {
    return message < chunks_ ? 2 * message + 1 : chunks_ + message;
  }

 private:
  std::int64_t step(std::int64_t message) const { return message / chunks_; }
  Chunk chunk(std::int64_t block, std::int64_t message) const;

  std::int64_t count_;
  std::int64_t line_;  // elements in a cache line, at multiples of which ranges begin
  int rank_, ranks_;
  std::int64_t chunks_, longest_chunk_;
};

// Called with one chunk.
using ChunkFunction = std::function<void(Chunk)>;

// Combines `values` of all ranks of `comm` in place. `prepare` is called before a chunk of this
// rank's own values is read, in order_of_need(), and `finished` when a chunk is final, in
// order_of_completion(): work on the values inside the node runs while others are on the wire.
// The same bits on all ranks, and in every run.
void ring_allreduce(void* values, const RingPlan& plan, DType type, ReduceOp op, MPI_Comm comm,
                    const ChunkFunction& prepare, const ChunkFunction& finished);

// Bytes of a chunk: as many as Open MPI sends over TCP without asking the receiver first (64 KiB
// with its header), which keeps a link of 1 Gbit/s busier than longer messages do.
inline constexpr std::size_t default_ring_chunk = std::size_t{60} << 10;
// Tests make it shorter, to meet many chunks with few values. The same on all ranks.
void set_ring_chunk(std::size_t bytes);
std::size_t ring_chunk();

}  // namespace tasuki
