// Objects between ranks, as bytes: lengths first, then the bytes, in pieces where MPI's counts
// would not hold them.
#include <limits>
#include <numeric>

#include "tasuki/communicator/mpi/message.hpp"
#include "tasuki/communicator/mpi/transfer.hpp"
#include "tasuki/communicator/mpi_communicator.hpp"

namespace tasuki {
namespace {

constexpr int tag_of_contents = 2;

Bytes make_bytes(std::int64_t length) {
  return Bytes(static_cast<std::size_t>(length));
}

}  // namespace

void MpiCommunicator::send_bytes(std::span<const std::byte> bytes, int dest, int tag) {
  check_peer("send_bytes", dest);
  const auto waiting = wait_for(Waiting::send, dest);
  const std::int64_t length = std::ssize(bytes);
  const MessageStart start(MessageKind::bytes, std::as_bytes(std::span(&length, 1)));
  MpiRequests requests;
  start.send(requests, dest, tag, messages_.get());
  start_send(requests, bytes, dest, tag, messages_.get());
  requests.wait();
}

Bytes MpiCommunicator::recv_bytes(int source, int tag, MessageInfo* info) {
  if (source != any_source) check_peer("recv_bytes", source);
  const auto waiting = wait_for(Waiting::recv, source);
  const auto start = MessageStart::receive(MessageKind::bytes, source, tag, messages_.get());
  Bytes bytes = make_bytes(start.contents<std::int64_t>().at(0));
  MpiRequests requests;
  start_recv(requests, bytes, start.source(), start.tag(), messages_.get());
  requests.wait();
  if (info != nullptr) *info = {start.source(), start.tag()};
  return bytes;
}

Bytes MpiCommunicator::bcast_bytes(std::span<const std::byte> bytes, int root, std::int64_t chunk) {
  check_root("bcast_bytes", root);
  const auto waiting = wait_in(Waiting::bcast);
  if (chunk < 1 || chunk >= std::numeric_limits<int>::max())
    throw Error(ErrorKind::usage,
                fmt::format("bcast_bytes: chunks of {} bytes; expected 1 to {}", chunk,
                            std::numeric_limits<int>::max() - 1),
                topology().shared_error_scope);
  std::int64_t length = std::ssize(bytes);
  TASUKI_MPI(MPI_Bcast, &length, 1, MPI_INT64_T, root, comm());
  Bytes copy = rank() == root ? Bytes(bytes.begin(), bytes.end()) : make_bytes(length);
  tasuki::bcast(copy, root, comm(), chunk);
  return copy;
}

std::vector<Bytes> MpiCommunicator::gather_bytes(std::span<const std::byte> bytes, int root) {
  check_root("gather_bytes", root);
  const auto waiting = wait_in(Waiting::gather);
  const std::int64_t length = std::ssize(bytes);
  std::vector<std::int64_t> lengths(rank() == root ? ranks() : 0);
  TASUKI_MPI(MPI_Gather, &length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, root, comm());
  std::vector<Bytes> gathered;
  gathered.reserve(lengths.size());
  for (const std::int64_t other : lengths) gathered.push_back(make_bytes(other));
  MpiRequests requests;
  for (std::size_t other = 0; other < gathered.size(); ++other)
    start_recv(requests, gathered[other], static_cast<int>(other), tag_of_contents, comm());
  start_send(requests, bytes, root, tag_of_contents, comm());
  requests.wait();
  return gathered;
}

std::vector<Bytes> MpiCommunicator::allgather_bytes(std::span<const std::byte> bytes) {
  const auto waiting = wait_in(Waiting::allgather);
  const std::int64_t length = std::ssize(bytes);
  std::vector<std::int64_t> lengths(ranks());
  TASUKI_MPI(MPI_Allgather, &length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, comm());
  std::vector<Bytes> gathered;
  gathered.reserve(ranks());
  for (int other = 0; other < size(); ++other) {
    gathered.push_back(other == rank() ? Bytes(bytes.begin(), bytes.end())
                                       : make_bytes(lengths[static_cast<std::size_t>(other)]));
    tasuki::bcast(gathered.back(), other, comm());
  }
  return gathered;
}

Bytes MpiCommunicator::scatter_bytes(std::span<const Bytes> parts, int root) {
  check_root("scatter_bytes", root);
  const auto waiting = wait_in(Waiting::scatter);
  std::vector<std::int64_t> lengths;
  if (rank() == root) {
    if (parts.size() != ranks())
      fail(ErrorKind::usage, "scatter_bytes: {} parts for {} ranks; expected one for each",
           parts.size(), size());
    lengths.reserve(parts.size());
    for (const Bytes& part : parts) lengths.push_back(std::ssize(part));
  }
  std::int64_t length = 0;
  TASUKI_MPI(MPI_Scatter, lengths.data(), 1, MPI_INT64_T, &length, 1, MPI_INT64_T, root, comm());
  Bytes own = make_bytes(length);
  MpiRequests requests;
  start_recv(requests, own, root, tag_of_contents, comm());
  for (std::size_t other = 0; other < lengths.size(); ++other)
    start_send(requests, parts[other], static_cast<int>(other), tag_of_contents, comm());
  requests.wait();
  return own;
}

}  // namespace tasuki
