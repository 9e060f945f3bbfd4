#include "communicator/mpi/message.hpp"

#include <cstring>

#include "communicator/communicator.hpp"
#include "communicator/mpi/operation_scopes.hpp"
#include "communicator/mpi/transfer.hpp"
#include "core/error.hpp"
#include "core/polite_wait.hpp"

namespace tasuki {
namespace {

const char* name_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::bytes:
      return "bytes";
    case MessageKind::arrays:
      return "arrays";
    case MessageKind::objects:
      return "objects";
  }
  return "something else";
}

}  // namespace

MessageStart::MessageStart(MessageKind kind, std::span<const std::byte> contents)
    : message_(sizeof kind + contents.size()) {
  std::memcpy(message_.data(), &kind, sizeof kind);
  if (!contents.empty())
    std::memcpy(message_.data() + sizeof kind, contents.data(), contents.size());
}

MessageStart MessageStart::receive(MessageKind kind, int source, int tag, MPI_Comm comm) {
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status status;
  PoliteWait waiting;
  for (int arrived = 0;;) {
    TASUKI_MPI(MPI_Improbe, source == any_source ? MPI_ANY_SOURCE : source,
               tag == any_tag ? MPI_ANY_TAG : tag, comm, &arrived, &handle, &status);
    if (arrived != 0) break;
    waiting.pause();
  }
  int bytes = 0;
  TASUKI_MPI(MPI_Get_count, &status, MPI_BYTE, &bytes);
  MessageStart start;
  start.message_.resize(static_cast<std::size_t>(bytes));
  start.source_ = status.MPI_SOURCE;
  start.tag_ = status.MPI_TAG;
  TASUKI_MPI(MPI_Mrecv, start.message_.data(), bytes, MPI_BYTE, &handle, MPI_STATUS_IGNORE);

  MessageKind found{};
  TASUKI_CHECK(start.message_.size() >= sizeof found, "a message of {} bytes from rank {}", bytes,
               start.source_);
  std::memcpy(&found, start.message_.data(), sizeof found);
  if (found != kind)
    fail(ErrorKind::disagreement, "expected {} from rank {}, found {} (tag {})", name_of(kind),
         start.source_, name_of(found), start.tag_);
  return start;
}

void MessageStart::send(MpiRequests& requests, int dest, int tag, MPI_Comm comm) const {
  TASUKI_MPI(MPI_Isend, message_.data(), checked_cast<int>(message_.size(), "message length"),
             MPI_BYTE, dest, tag, comm, requests.add());
}

void MessageStart::copy_contents(std::span<std::byte> destination) const {
  if (!destination.empty())
    std::memcpy(destination.data(), message_.data() + sizeof(MessageKind), destination.size());
}

void send_message(Communicator& communicator, const char* operation, MessageKind kind,
                  std::span<const std::byte> bytes, int dest, int tag) {
  const MessageScope scope(communicator, Waiting::send, operation, dest);
  const std::int64_t length = std::ssize(bytes);
  const MessageStart start(kind, std::as_bytes(std::span(&length, 1)));
  MpiRequests requests;
  start.send(requests, dest, tag, scope.comm());
  start_send(requests, bytes, dest, tag, scope.comm(), communicator.options().sizes.mpi_call);
  requests.wait();
}

Bytes recv_message(Communicator& communicator, const char* operation, MessageKind kind, int source,
                   int tag, MessageInfo* info) {
  const MessageScope scope(communicator, Waiting::recv, operation, source);
  const auto start = MessageStart::receive(kind, source, tag, scope.comm());
  Bytes bytes(static_cast<std::size_t>(start.contents<std::int64_t>().at(0)));
  MpiRequests requests;
  start_recv(requests, bytes, start.source(), start.tag(), scope.comm(),
             communicator.options().sizes.mpi_call);
  requests.wait();
  if (info != nullptr) *info = {start.source(), start.tag()};
  return bytes;
}

}  // namespace tasuki
