#include "communicator/mpi/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "core/activity.hpp"
#include "core/error.hpp"

namespace tasuki {
namespace {

// The number of elements that fit into `limit` bytes.
std::int64_t elements_of_a_call(DType type, std::int64_t limit) {
  TASUKI_CHECK(limit >= 1 && limit <= std::numeric_limits<int>::max(),
               "{} bytes at most in one MPI call; expected 1 to {}", limit,
               std::numeric_limits<int>::max());
  return std::max<std::int64_t>(1, limit / static_cast<std::int64_t>(size_of(type)));
}

// Calls piece(begin, count) for consecutive ranges of at most `longest` elements.
template <class Piece>
void for_pieces(std::int64_t total, std::int64_t longest, const Piece& piece) {
  for (std::int64_t begin = 0; begin < total; begin += longest) {
    piece(begin, checked_cast<int>(std::min(longest, total - begin), "count of an MPI call"));
    report_progress();
  }
}

std::size_t bytes_of(std::int64_t elements, DType type) {
  return static_cast<std::size_t>(elements) * size_of(type);
}

// A single call of MPI: the values for the ranks are contiguous.
void reduce_scatter_at_once(const void* values, void* own, std::span<const int> counts, DType type,
                            ReduceOp op, MPI_Comm comm) {
  TASUKI_MPI(MPI_Reduce_scatter, values, own, counts.data(), mpi_type(type), mpi_op(type, op),
             comm);
  report_progress();
}

}  // namespace

void start_send(MpiRequests& requests, std::span<const std::byte> bytes, int dest, int tag,
                MPI_Comm comm, std::int64_t limit) {
  for_pieces(std::ssize(bytes), elements_of_a_call(DType::uint8, limit),
             [&](std::int64_t begin, int count) {
               TASUKI_MPI(MPI_Isend, bytes.data() + begin, count, MPI_BYTE, dest, tag, comm,
                          requests.add());
             });
}

void start_recv(MpiRequests& requests, std::span<std::byte> bytes, int source, int tag,
                MPI_Comm comm, std::int64_t limit) {
  for_pieces(std::ssize(bytes), elements_of_a_call(DType::uint8, limit),
             [&](std::int64_t begin, int count) {
               TASUKI_MPI(MPI_Irecv, bytes.data() + begin, count, MPI_BYTE, source, tag, comm,
                          requests.add());
             });
}

void bcast(std::span<std::byte> bytes, int root, MPI_Comm comm, std::int64_t limit) {
  for_pieces(std::ssize(bytes), elements_of_a_call(DType::uint8, limit),
             [&](std::int64_t begin, int count) {
               TASUKI_MPI(MPI_Bcast, bytes.data() + begin, count, MPI_BYTE, root, comm);
             });
}

void allreduce(void* values, std::int64_t count, DType type, ReduceOp op, MPI_Comm comm,
               std::int64_t limit) {
  for_pieces(count, elements_of_a_call(type, limit), [&](std::int64_t begin, int piece) {
    void* place = static_cast<std::byte*>(values) + bytes_of(begin, type);
    TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, place, piece, mpi_type(type), mpi_op(type, op), comm);
  });
}

void reduce(void* values, std::int64_t count, DType type, ReduceOp op, int root, MPI_Comm comm,
            std::int64_t limit) {
  int rank = 0;
  TASUKI_MPI(MPI_Comm_rank, comm, &rank);
  for_pieces(count, elements_of_a_call(type, limit), [&](std::int64_t begin, int piece) {
    void* place = static_cast<std::byte*>(values) + bytes_of(begin, type);
    TASUKI_MPI(MPI_Reduce, rank == root ? MPI_IN_PLACE : place, rank == root ? place : nullptr,
               piece, mpi_type(type), mpi_op(type, op), root, comm);
  });
}

void reduce_scatter(const void* values, void* own, std::span<const Range> parts, DType type,
                    ReduceOp op, MPI_Comm comm, std::int64_t limit) {
  const std::int64_t at_once = elements_of_a_call(type, limit);
  std::vector<int> counts(parts.size());
  if (parts.back().end <= at_once) {
    std::ranges::transform(parts, counts.begin(),
                           [](Range part) { return static_cast<int>(part.size()); });
    return reduce_scatter_at_once(values, own, counts, type, op, comm);
  }
  // Each call transfers the next piece of every rank's part, put side by side.
  const auto ranks = static_cast<std::int64_t>(parts.size());
  const std::int64_t piece = std::max<std::int64_t>(1, at_once / ranks);
  std::vector<std::byte> side_by_side(bytes_of(piece * ranks, type));
  const std::int64_t longest = std::ranges::max(parts, {}, &Range::size).size();
  for (std::int64_t offset = 0; offset < longest; offset += piece) {
    std::byte* place = side_by_side.data();
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const std::int64_t begin = std::min(parts[rank].begin + offset, parts[rank].end);
      const std::int64_t count = std::min(piece, parts[rank].end - begin);
      if (count > 0)
        std::memcpy(place, static_cast<const std::byte*>(values) + bytes_of(begin, type),
                    bytes_of(count, type));
      place += bytes_of(count, type);
      counts[rank] = static_cast<int>(count);
    }
    void* result = static_cast<std::byte*>(own) + bytes_of(offset, type);
    reduce_scatter_at_once(side_by_side.data(), result, counts, type, op, comm);
  }
}

void share_parts(void* values, std::span<const Range> parts, DType type, MPI_Comm comm,
                 std::int64_t limit) {
  const std::int64_t end = std::ranges::max(parts, {}, &Range::end).end;
  if (end > elements_of_a_call(type, limit)) {
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
      bcast({static_cast<std::byte*>(values) + bytes_of(parts[rank].begin, type),
             bytes_of(parts[rank].size(), type)},
            static_cast<int>(rank), comm, limit);
    return;
  }
  std::vector<int> counts, places;
  for (const Range& part : parts) {
    counts.push_back(static_cast<int>(part.size()));
    places.push_back(static_cast<int>(part.begin));
  }
  TASUKI_MPI(MPI_Allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values, counts.data(),
             places.data(), mpi_type(type), comm);
  report_progress();
}

}  // namespace tasuki
