// Objects between ranks: bytes, and JSON values as CBOR. Lengths first, then the bytes, in pieces
// if MPI's counts cannot hold them.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "communicator/communicator.hpp"
#include "communicator/mpi/message.hpp"
#include "communicator/mpi/transfer.hpp"
#include "communicator/text_bytes.hpp"
#include "core/polite_wait.hpp"

namespace tasuki {
namespace {

constexpr int tag_of_contents = 2;

Bytes make_bytes(std::int64_t length) {
  return Bytes(static_cast<std::size_t>(length));
}

std::vector<nlohmann::json> decode_all(const std::vector<Bytes>& parts) {
  std::vector<nlohmann::json> objects;
  objects.reserve(parts.size());
  for (const Bytes& part : parts) objects.push_back(bytes_to_object(part));
  return objects;
}

}  // namespace

Bytes object_to_bytes(const nlohmann::json& object) {
  const std::vector<std::uint8_t> cbor = nlohmann::json::to_cbor(object);
  const auto bytes = std::as_bytes(std::span(cbor));
  return {bytes.begin(), bytes.end()};
}

nlohmann::json bytes_to_object(std::span<const std::byte> bytes) {
  const auto* const cbor = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return nlohmann::json::from_cbor(cbor, cbor + bytes.size());
}

void Communicator::send_message(MessageKind kind, std::span<const std::byte> bytes, int dest,
                                int tag) {
  const auto waiting = wait_for(Waiting::send, dest);
  const std::int64_t length = std::ssize(bytes);
  const MessageStart start(kind, std::as_bytes(std::span(&length, 1)));
  MpiRequests requests;
  start.send(requests, dest, tag, messages().get());
  start_send(requests, bytes, dest, tag, messages().get(), call_bytes());
  requests.wait();
}

Bytes Communicator::recv_message(MessageKind kind, int source, int tag, MessageInfo* info) {
  const auto waiting = wait_for(Waiting::recv, source);
  const auto start = MessageStart::receive(kind, source, tag, messages().get());
  Bytes bytes = make_bytes(start.contents<std::int64_t>().at(0));
  MpiRequests requests;
  start_recv(requests, bytes, start.source(), start.tag(), messages().get(), call_bytes());
  requests.wait();
  if (info != nullptr) *info = {start.source(), start.tag()};
  return bytes;
}

void Communicator::send_bytes(std::span<const std::byte> bytes, int dest, int tag) {
  check_peer("send_bytes", dest);
  send_message(MessageKind::bytes, bytes, dest, tag);
}

Bytes Communicator::recv_bytes(int source, int tag, MessageInfo* info) {
  if (source != any_source) check_peer("recv_bytes", source);
  return recv_message(MessageKind::bytes, source, tag, info);
}

Bytes Communicator::bcast_bytes(std::span<const std::byte> bytes, int root, std::int64_t chunk) {
  const auto waiting = wait_in(Waiting::bcast);
  compare_calls("bcast_bytes from rank {}", root);
  check_root("bcast_bytes", root);
  if (chunk < 1 || chunk >= std::numeric_limits<int>::max())
    throw Error(ErrorKind::usage,
                fmt::format("bcast_bytes: chunks of {} bytes; expected 1 to {}", chunk,
                            std::numeric_limits<int>::max() - 1),
                topology().shared_error_scope);
  std::int64_t length = std::ssize(bytes);
  TASUKI_MPI(MPI_Bcast, &length, 1, MPI_INT64_T, root, comm().get());
  Bytes copy = rank() == root ? Bytes(bytes.begin(), bytes.end()) : make_bytes(length);
  tasuki::bcast(copy, root, comm().get(), std::min(chunk, call_bytes()));
  return copy;
}

std::vector<Bytes> Communicator::gather_bytes(std::span<const std::byte> bytes, int root) {
  const auto waiting = wait_in(Waiting::gather);
  compare_calls("gather_bytes to rank {}", root);
  check_root("gather_bytes", root);
  const std::int64_t length = std::ssize(bytes);
  std::vector<std::int64_t> lengths(rank() == root ? ranks() : 0);
  TASUKI_MPI(MPI_Gather, &length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, root,
             comm().get());
  std::vector<Bytes> gathered;
  gathered.reserve(lengths.size());
  for (const std::int64_t other : lengths) gathered.push_back(make_bytes(other));
  MpiRequests requests;
  for (std::size_t other = 0; other < gathered.size(); ++other)
    start_recv(requests, gathered[other], static_cast<int>(other), tag_of_contents, comm().get(),
               call_bytes());
  start_send(requests, bytes, root, tag_of_contents, comm().get(), call_bytes());
  requests.wait();
  return gathered;
}

std::vector<Bytes> Communicator::allgather_bytes(std::span<const std::byte> bytes) {
  const auto waiting = wait_in(Waiting::allgather);
  compare_calls("allgather_bytes");
  const std::int64_t length = std::ssize(bytes);
  std::vector<std::int64_t> lengths(ranks());
  // Ranks may meet here after very different work (reading or writing files), so those that come
  // first must not poll on the cores of those that compute. Afterwards all are here.
  MPI_Request request = MPI_REQUEST_NULL;
  TASUKI_MPI(MPI_Iallgather, &length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, comm().get(),
             &request);
  PoliteWait polite;
  for (int done = 0;;) {
    TASUKI_MPI(MPI_Test, &request, &done, MPI_STATUS_IGNORE);
    if (done != 0) break;
    polite.pause();
  }
  std::vector<Bytes> gathered;
  gathered.reserve(ranks());
  for (int other = 0; other < size(); ++other) {
    gathered.push_back(other == rank() ? Bytes(bytes.begin(), bytes.end())
                                       : make_bytes(lengths[static_cast<std::size_t>(other)]));
    tasuki::bcast(gathered.back(), other, comm().get(), call_bytes());
  }
  return gathered;
}

Bytes Communicator::scatter_bytes(std::span<const Bytes> parts, int root) {
  const auto waiting = wait_in(Waiting::scatter);
  compare_calls("scatter_bytes from rank {}", root);
  check_root("scatter_bytes", root);
  std::vector<std::int64_t> lengths;
  if (rank() == root) {
    if (parts.size() != ranks())
      fail(ErrorKind::usage, "scatter: {} objects for {} ranks; expected one per rank",
           parts.size(), size());
    lengths.reserve(parts.size());
    for (const Bytes& part : parts) lengths.push_back(std::ssize(part));
  }
  std::int64_t length = 0;
  TASUKI_MPI(MPI_Scatter, lengths.data(), 1, MPI_INT64_T, &length, 1, MPI_INT64_T, root,
             comm().get());
  Bytes own = make_bytes(length);
  MpiRequests requests;
  start_recv(requests, own, root, tag_of_contents, comm().get(), call_bytes());
  for (std::size_t other = 0; other < lengths.size(); ++other)
    start_send(requests, parts[other], static_cast<int>(other), tag_of_contents, comm().get(),
               call_bytes());
  requests.wait();
  return own;
}

void Communicator::send_object(const nlohmann::json& object, int dest, int tag) {
  check_peer("send_object", dest);
  send_message(MessageKind::objects, object_to_bytes(object), dest, tag);
}

nlohmann::json Communicator::recv_object(int source, int tag, MessageInfo* info) {
  if (source != any_source) check_peer("recv_object", source);
  return bytes_to_object(recv_message(MessageKind::objects, source, tag, info));
}

nlohmann::json Communicator::bcast_object(const nlohmann::json& object, int root) {
  return bytes_to_object(bcast_bytes(rank() == root ? object_to_bytes(object) : Bytes(), root));
}

std::vector<nlohmann::json> Communicator::gather_object(const nlohmann::json& object, int root) {
  return decode_all(gather_bytes(object_to_bytes(object), root));
}

std::vector<nlohmann::json> Communicator::allgather_object(const nlohmann::json& object) {
  return decode_all(allgather_bytes(object_to_bytes(object)));
}

nlohmann::json Communicator::scatter_object(const std::vector<nlohmann::json>& objects, int root) {
  std::vector<Bytes> parts;
  if (rank() == root)
    for (const nlohmann::json& object : objects) parts.push_back(object_to_bytes(object));
  return bytes_to_object(scatter_bytes(parts, root));
}

}  // namespace tasuki
