#include "tasuki/communicator/mpi/transfer.hpp"

#include <algorithm>
#include <limits>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/cast.hpp"
#include "tasuki/core/error.hpp"

namespace tasuki {
namespace {

// Bytes. Far below what a count can hold, so that slow links show progress between calls.
std::int64_t limit_of_a_call = std::int64_t{1} << 26;

// The same in elements.
std::int64_t elements_of_a_call(DType type) {
  return std::max<std::int64_t>(1, limit_of_a_call / static_cast<std::int64_t>(size_of(type)));
}

// Calls piece(begin, count) for consecutive ranges of at most `limit`.
template <class Piece>
void for_pieces(std::int64_t total, std::int64_t limit, const Piece& piece) {
  for (std::int64_t begin = 0; begin < total; begin += limit) {
    piece(begin, checked_cast<int>(std::min(limit, total - begin), "count of an MPI call"));
    report_progress();
  }
}

}  // namespace

std::int64_t transfer_limit() {
  return limit_of_a_call;
}

void set_transfer_limit(std::int64_t bytes) {
  TASUKI_CHECK(bytes >= 1 && bytes <= std::numeric_limits<int>::max(),
               "at most {} bytes in one MPI call", bytes);
  limit_of_a_call = bytes;
}

void start_send(MpiRequests& requests, std::span<const std::byte> bytes, int dest, int tag,
                MPI_Comm comm) {
  for_pieces(std::ssize(bytes), transfer_limit(), [&](std::int64_t begin, int count) {
    TASUKI_MPI(MPI_Isend, bytes.data() + begin, count, MPI_BYTE, dest, tag, comm, requests.add());
  });
}

void start_recv(MpiRequests& requests, std::span<std::byte> bytes, int source, int tag,
                MPI_Comm comm) {
  for_pieces(std::ssize(bytes), transfer_limit(), [&](std::int64_t begin, int count) {
    TASUKI_MPI(MPI_Irecv, bytes.data() + begin, count, MPI_BYTE, source, tag, comm, requests.add());
  });
}

void bcast(std::span<std::byte> bytes, int root, MPI_Comm comm, std::int64_t limit) {
  const std::int64_t longest = limit > 0 ? std::min(limit, transfer_limit()) : transfer_limit();
  for_pieces(std::ssize(bytes), longest, [&](std::int64_t begin, int count) {
    TASUKI_MPI(MPI_Bcast, bytes.data() + begin, count, MPI_BYTE, root, comm);
  });
}

void allreduce(void* values, std::int64_t count, DType type, ReduceOp op, MPI_Comm comm) {
  for_pieces(count, elements_of_a_call(type), [&](std::int64_t begin, int piece) {
    void* place = static_cast<std::byte*>(values) + begin * std::int64_t(size_of(type));
    TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, place, piece, mpi_type(type), mpi_op(type, op), comm);
  });
}

void reduce(void* values, std::int64_t count, DType type, ReduceOp op, int root, MPI_Comm comm) {
  int rank = 0;
  TASUKI_MPI(MPI_Comm_rank, comm, &rank);
  for_pieces(count, elements_of_a_call(type), [&](std::int64_t begin, int piece) {
    void* place = static_cast<std::byte*>(values) + begin * std::int64_t(size_of(type));
    TASUKI_MPI(MPI_Reduce, rank == root ? MPI_IN_PLACE : place, rank == root ? place : nullptr,
               piece, mpi_type(type), mpi_op(type, op), root, comm);
  });
}

}  // namespace tasuki
