// The first part of a message between two ranks, from which the receiver learns what follows.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tasuki/communicator/mpi/mpi.hpp"

namespace tasuki {

enum class MessageKind : int { bytes = 0x7A51, arrays };

// `kind`, then a few bytes of contents: the arrays' headers, or the length of an object.
class MessageStart {
 public:
  MessageStart(MessageKind kind, std::span<const std::byte> contents);

  // Waits for the start of any message that matches (any_source, any_tag allowed). A message of
  // another kind is an error that names the sender.
  static MessageStart receive(MessageKind kind, int source, int tag, MPI_Comm comm);

  // This object must live until the requests are done.
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

}  // namespace tasuki
