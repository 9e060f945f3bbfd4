#include "communicator/send_queue.hpp"

#include "communicator/communicator.hpp"
#include "communicator/mpi/array_send.hpp"
#include "communicator/mpi/operation_scopes.hpp"

namespace tasuki {

SendQueue::SendQueue(Communicator& communicator) : communicator_(communicator) {}

SendQueue::~SendQueue() = default;

void SendQueue::send(std::span<const Tensor> tensors, int dest, int tag) {
  const MessageScope scope(communicator_, Waiting::send, "send", dest);
  std::erase_if(under_way_, [](ArraySend& message) { return message.is_done(); });
  under_way_.emplace_back(tensors, dest, tag, scope.comm(), communicator_.options().sizes.mpi_call);
}

void SendQueue::wait() {
  for (; !under_way_.empty(); under_way_.pop_front()) {
    ArraySend& message = under_way_.front();
    const MessageScope scope(communicator_, Waiting::send, "send", message.dest());
    message.wait();
  }
}

}  // namespace tasuki
