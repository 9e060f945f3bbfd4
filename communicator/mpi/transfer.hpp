// Messages and reductions of any length over MPI, whose counts are ints: what is longer than
// transfer_limit() travels in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tasuki/communicator/mpi/mpi.hpp"

namespace tasuki {

// Bytes handed to one MPI call at most, 1 .. INT_MAX (but one element always). The same on all
// ranks; tests lower it.
std::int64_t transfer_limit();
void set_transfer_limit(std::int64_t bytes);

// Add the sends or receives of one message to `requests`. Both sides must know its length.
void start_send(MpiRequests& requests, std::span<const std::byte> bytes, int dest, int tag,
                MPI_Comm comm);
void start_recv(MpiRequests& requests, std::span<std::byte> bytes, int source, int tag,
                MPI_Comm comm);

void bcast(std::span<std::byte> bytes, int root, MPI_Comm comm, std::int64_t limit = 0);

// Elements of `values` combined over all ranks, in place.
void allreduce(void* values, std::int64_t count, DType type, ReduceOp op, MPI_Comm comm);
// The same for the root alone; other ranks' values stay as they are.
void reduce(void* values, std::int64_t count, DType type, ReduceOp op, int root, MPI_Comm comm);

}  // namespace tasuki
