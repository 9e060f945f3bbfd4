// ArraySend: one message of arrays on its way to another rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "communicator/mpi/message.hpp"
#include "communicator/mpi/mpi.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// Holds what it sends. The destructor cancels a message that is still on its way.
class ArraySend {
 public:
  // Starts the message: the arrays' headers, then their elements in pieces of at most `limit` bytes
  // (transfer.hpp). Tensors on a GPU are copied to the host first; others must not be written until
  // the message has been sent.
  ArraySend(std::span<const Tensor> tensors, int dest, int tag, MPI_Comm comm, std::int64_t limit);
  ArraySend(const ArraySend&) = delete;
  ArraySend& operator=(const ArraySend&) = delete;

  int dest() const { return dest_; }
  // Whether the message has been sent. Does not wait.
  bool is_done() { return requests_.are_done(); }
  void wait() { requests_.wait(); }

 private:
  int dest_;
  std::vector<Tensor> values_;  // in host memory
  MessageStart start_;
  MpiRequests requests_;
};

}  // namespace tasuki
