// Messages and reductions of any length over MPI. MPI counts with ints, so longer ones travel in
// pieces of `limit` bytes (TransferSizes::mpi_call; at least one element), which is the same on all
// ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "communicator/mpi/mpi.hpp"
#include "communicator/mpi/transfer_sizes.hpp"
#include "core/range.hpp"

namespace tasuki {

inline constexpr std::int64_t default_call_bytes = TransferSizes{}.mpi_call;

// Add the sends or receives of one message to `requests`. Both sides must know its length.
void start_send(MpiRequests& requests, std::span<const std::byte> bytes, int dest, int tag,
                MPI_Comm comm, std::int64_t limit = default_call_bytes);
void start_recv(MpiRequests& requests, std::span<std::byte> bytes, int source, int tag,
                MPI_Comm comm, std::int64_t limit = default_call_bytes);

void bcast(std::span<std::byte> bytes, int root, MPI_Comm comm,
           std::int64_t limit = default_call_bytes);

// Combines elements of `values` over all ranks, in place.
void allreduce(void* values, std::int64_t count, DType type, ReduceOp op, MPI_Comm comm,
               std::int64_t limit = default_call_bytes);
// allreduce() at the root only; other ranks' values stay as they are.
void reduce(void* values, std::int64_t count, DType type, ReduceOp op, int root, MPI_Comm comm,
            std::int64_t limit = default_call_bytes);
// Combines elements parts[rank] over all ranks into `own`; `values` stay as they are. The parts
// follow each other from element 0 on, one for each rank.
void reduce_scatter(const void* values, void* own, std::span<const Range> parts, DType type,
                    ReduceOp op, MPI_Comm comm, std::int64_t limit = default_call_bytes);
// Copies elements parts[r] of rank r's `values` to all ranks, in place. The parts do not overlap.
void share_parts(void* values, std::span<const Range> parts, DType type, MPI_Comm comm,
                 std::int64_t limit = default_call_bytes);

}  // namespace tasuki
