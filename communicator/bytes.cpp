// Lengths first, then the bytes, in pieces if MPI's counts cannot hold them.
#include "communicator/bytes.hpp"

#include <algorithm>
#include <limits>

#include "communicator/communicator.hpp"
#include "communicator/mpi/message.hpp"
#include "communicator/mpi/operation_scopes.hpp"
#include "communicator/mpi/transfer.hpp"
#include "core/polite_wait.hpp"

namespace tasuki {
namespace {

constexpr int tag_of_contents = 2;

Bytes make_bytes(std::int64_t length) {
  return Bytes(static_cast<std::size_t>(length));
}

std::size_t ranks_of(const Communicator& communicator) {
  return static_cast<std::size_t>(communicator.size());
}

std::int64_t call_bytes_of(const Communicator& communicator) {
  return communicator.options().sizes.mpi_call;
}

}  // namespace

void send_bytes(Communicator& communicator, std::span<const std::byte> bytes, int dest, int tag) {
  send_message(communicator, "send_bytes", MessageKind::bytes, bytes, dest, tag);
}

Bytes recv_bytes(Communicator& communicator, int source, int tag, MessageInfo* info) {
  return recv_message(communicator, "recv_bytes", MessageKind::bytes, source, tag, info);
}

Bytes bcast_bytes(Communicator& communicator, std::span<const std::byte> bytes, int root,
                  std::int64_t chunk) {
  const CollectiveScope scope(communicator, Waiting::bcast, "bcast_bytes from rank {}", root);
  check_root(communicator, "bcast_bytes", root);
  if (chunk < 1 || chunk >= std::numeric_limits<int>::max())
    throw Error(ErrorKind::usage,
                fmt::format("bcast_bytes: chunks of {} bytes; expected 1 to {}", chunk,
                            std::numeric_limits<int>::max() - 1),
                communicator.topology().shared_error_scope);
  std::int64_t length = std::ssize(bytes);
  TASUKI_MPI(MPI_Bcast, &length, 1, MPI_INT64_T, root, scope.comm());
  Bytes copy = communicator.rank() == root ? Bytes(bytes.begin(), bytes.end()) : make_bytes(length);
  bcast(copy, root, scope.comm(), std::min(chunk, call_bytes_of(communicator)));
  return copy;
}

std::vector<Bytes> gather_bytes(Communicator& communicator, std::span<const std::byte> bytes,
                                int root) {
  const CollectiveScope scope(communicator, Waiting::gather, "gather_bytes to rank {}", root);
  check_root(communicator, "gather_bytes", root);
  const MPI_Comm comm = scope.comm();
  const std::int64_t length = std::ssize(bytes), call_bytes = call_bytes_of(communicator);
  std::vector<std::int64_t> lengths(communicator.rank() == root ? ranks_of(communicator) : 0);
  TASUKI_MPI(MPI_Gather, &length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, root, comm);
  std::vector<Bytes> gathered;
  gathered.reserve(lengths.size());
  for (const std::int64_t other : lengths) gathered.push_back(make_bytes(other));
  MpiRequests requests;
  for (std::size_t other = 0; other < gathered.size(); ++other)
    start_recv(requests, gathered[other], static_cast<int>(other), tag_of_contents, comm,
               call_bytes);
  start_send(requests, bytes, root, tag_of_contents, comm, call_bytes);
  requests.wait();
  return gathered;
}

std::vector<Bytes> allgather_bytes(Communicator& communicator, std::span<const std::byte> bytes) {
  const CollectiveScope scope(communicator, Waiting::allgather, "allgather_bytes");
  const MPI_Comm comm = scope.comm();
  const std::int64_t length = std::ssize(bytes);
  std::vector<std::int64_t> lengths(ranks_of(communicator));
  // Ranks may meet here after very different work (reading or writing files), so those that come
  // first must not poll on the cores of those that compute. Afterwards all are here.
  MPI_Request request = MPI_REQUEST_NULL;
  TASUKI_MPI(MPI_Iallgather, &length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, comm,
             &request);
  PoliteWait polite;
  for (int done = 0;;) {
    TASUKI_MPI(MPI_Test, &request, &done, MPI_STATUS_IGNORE);
    if (done != 0) break;
    polite.pause();
  }
  std::vector<Bytes> gathered;
  gathered.reserve(lengths.size());
  for (int other = 0; other < communicator.size(); ++other) {
    gathered.push_back(other == communicator.rank()
                           ? Bytes(bytes.begin(), bytes.end())
                           : make_bytes(lengths[static_cast<std::size_t>(other)]));
    bcast(gathered.back(), other, comm, call_bytes_of(communicator));
  }
  return gathered;
}

Bytes scatter_bytes(Communicator& communicator, std::span<const Bytes> parts, int root) {
  const CollectiveScope scope(communicator, Waiting::scatter, "scatter_bytes from rank {}", root);
  check_root(communicator, "scatter_bytes", root);
  std::vector<std::int64_t> lengths;
  if (communicator.rank() == root) {
    if (parts.size() != ranks_of(communicator))
      fail(ErrorKind::usage, "scatter: {} objects for {} ranks; expected one per rank",
           parts.size(), communicator.size());
    lengths.reserve(parts.size());
    for (const Bytes& part : parts) lengths.push_back(std::ssize(part));
  }
  const MPI_Comm comm = scope.comm();
  const std::int64_t call_bytes = call_bytes_of(communicator);
  std::int64_t length = 0;
  TASUKI_MPI(MPI_Scatter, lengths.data(), 1, MPI_INT64_T, &length, 1, MPI_INT64_T, root, comm);
  Bytes own = make_bytes(length);
  MpiRequests requests;
  start_recv(requests, own, root, tag_of_contents, comm, call_bytes);
  for (std::size_t other = 0; other < lengths.size(); ++other)
    start_send(requests, parts[other], static_cast<int>(other), tag_of_contents, comm, call_bytes);
  requests.wait();
  return own;
}

}  // namespace tasuki
