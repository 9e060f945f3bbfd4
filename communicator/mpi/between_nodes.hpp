// Allreduce between nodes of values that become ready inside the node piece by piece.
#pragma once

#include "tasuki/communicator/mpi/ring_allreduce.hpp"
#include "tasuki/communicator/mpi/transfer_sizes.hpp"

namespace tasuki {

// The pieces of one rank's values, in the order in which the exchange needs them, and in which
// their results are complete.
struct PieceOrder {
  std::vector<Range> need, completion;
};
PieceOrder piece_order(std::int64_t count, DType type, int rank, int ranks,
                       const TransferSizes& sizes);

// Combines `values` of all ranks of `comm` in place. Calls `prepare` before it reads a piece of
// this rank's values and `finished` when a piece's result is complete, in the order of
// piece_order(). Few values go through MPI_Allreduce, whose algorithms need fewer messages; many
// through ring_allreduce.
void allreduce_between_nodes(void* values, std::int64_t count, DType type, ReduceOp op,
                             MPI_Comm comm, const TransferSizes& sizes,
                             const ChunkFunction& prepare, const ChunkFunction& finished);

}  // namespace tasuki
