// Allreduce between nodes, of values that are made ready inside the node piece by piece.
#pragma once

#include "tasuki/communicator/mpi/ring_allreduce.hpp"

namespace tasuki {

// The pieces in which one rank of such an exchange needs its own values, and in which it has
// results.
struct PieceOrder {
  std::vector<Chunk> need, completion;
};
PieceOrder piece_order(std::int64_t count, DType type, int rank, int ranks);

// Combines `values` of all ranks of `comm` in place, calling `prepare` and `finished` in the order
// of piece_order(). Few values go through MPI_Allreduce, whose algorithms need fewer messages, many
// through ring_allreduce.
void allreduce_between_nodes(void* values, std::int64_t count, DType type, ReduceOp op,
                             MPI_Comm comm, const ChunkFunction& prepare,
                             const ChunkFunction& finished);

}  // namespace tasuki
