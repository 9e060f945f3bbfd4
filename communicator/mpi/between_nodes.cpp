#include "tasuki/communicator/mpi/between_nodes.hpp"

#include "tasuki/communicator/mpi/transfer.hpp"

namespace tasuki {
namespace {

// Up to half a chunk, the number of successive messages decides: MPI needs log2(p), the ring 2 (p -
// 1).
bool is_small(std::int64_t count, DType type, const TransferSizes& sizes) {
  return count * static_cast<std::int64_t>(size_of(type)) <= sizes.ring_chunk / 2;
}

}  // namespace

PieceOrder piece_order(std::int64_t count, DType type, int rank, int ranks,
                       const TransferSizes& sizes) {
  if (ranks == 1 || is_small(count, type, sizes)) return {{{0, count}}, {{0, count}}};
  const RingPlan plan(count, size_of(type), rank, ranks, sizes.ring_chunk);
  return {plan.order_of_need(), plan.order_of_completion()};
}

void allreduce_between_nodes(void* values, std::int64_t count, DType type, ReduceOp op,
                             MPI_Comm comm, const TransferSizes& sizes,
                             const ChunkFunction& prepare, const ChunkFunction& finished) {
  int rank = 0, ranks = 0;
  TASUKI_MPI(MPI_Comm_rank, comm, &rank);
  TASUKI_MPI(MPI_Comm_size, comm, &ranks);
  if (ranks == 1 || is_small(count, type, sizes)) {
    prepare({0, count});
    allreduce(values, count, type, op, comm, sizes.mpi_call);
    finished({0, count});
  } else {
    const RingPlan plan(count, size_of(type), rank, ranks, sizes.ring_chunk);
    ring_allreduce(values, plan, type, op, comm, prepare, finished);
  }
}

}  // namespace tasuki
