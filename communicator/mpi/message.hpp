// Messages between two ranks. Each begins with a MessageStart, which announces the rest.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "communicator/bytes.hpp"
#include "communicator/mpi/mpi.hpp"

namespace tasuki {

enum class MessageKind : int { bytes = 0x7A51, arrays, objects };

// The kind of the message and a few bytes of contents: the headers of arrays, or the length of the
// bytes that follow.
class MessageStart {
 public:
  MessageStart(MessageKind kind, std::span<const std::byte> contents);

  // Waits for a message from this source with this tag (any_source and any_tag match all) and
  // receives its start. A message of another kind is an error that names the sender.
  static MessageStart receive(MessageKind kind, int source, int tag, MPI_Comm comm);

  // Adds the send to `requests`. This object must outlive them.
  void send(MpiRequests& requests, int dest, int tag, MPI_Comm comm) const;

  int source() const { return source_; }
  int tag() const { return tag_; }
  template <class T>
  std::vector<T> contents() const {
    std::vector<T> values((message_.size() - sizeof(MessageKind)) / sizeof(T));
    copy_contents(std::as_writable_bytes(std::span(values)));
    return values;
  }

 private:
  MessageStart() = default;
  void copy_contents(std::span<std::byte> destination) const;

  std::vector<std::byte> message_;
  int source_ = 0, tag_ = 0;
};

// Sends or receives bytes as a message of this kind: a start with their number, then the bytes.
// `operation` is used in error messages.
void send_message(Communicator& communicator, const char* operation, MessageKind kind,
                  std::span<const std::byte> bytes, int dest, int tag);
Bytes recv_message(Communicator& communicator, const char* operation, MessageKind kind, int source,
                   int tag, MessageInfo* info);

}  // namespace tasuki
