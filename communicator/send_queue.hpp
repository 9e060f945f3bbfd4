// SendQueue: arrays for other ranks that this rank does not wait for (MPI_Isend).
#pragma once

#include <list>
#include <span>

#include "tensor/tensor.hpp"

namespace tasuki {

class ArraySend;
class Communicator;

// With it, ranks may send to each other at the same time, and compute while messages wait for their
// receivers. MPI moves long messages while a rank is in a call: another send, a receive or wait().
// The rules for operations in communicator.hpp apply; a SendQueue is not collective.
class SendQueue {
 public:
  // `communicator` must outlive the queue.
  explicit SendQueue(Communicator& communicator);
  // Gives up messages that wait() has not seen sent, which happens only when an exception is
  // thrown.
  ~SendQueue();
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // Communicator::send() that does not wait. The receiver calls recv() or recv_many(). The queue
  // holds the tensors until they have been sent; do not write to them before.
  void send(std::span<const Tensor> tensors, int dest, int tag = 0);
  // Waits until all messages have been sent.
  void wait();

  Communicator& communicator() const { return communicator_; }

 private:
  Communicator& communicator_;
  std::list<ArraySend> under_way_;
};

}  // namespace tasuki
