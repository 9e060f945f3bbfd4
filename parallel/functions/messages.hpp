// Differentiable messages between two ranks (chainermn.functions: send, recv, pseudo_connect).
//
// A backward pass sends gradients the same way back: the backward pass of send() receives the
// gradient that the receiver's recv() sends. Functions run in reverse order of their calls, so a
// backward pass does not deadlock if the forward pass does not. A backward pass reaches a function
// only from a result computed from the function's return value. If this rank computes nothing from
// a sent value, send()'s delegate variable stands for it: start the backward pass there (`send(h,
// comm, 1).backward()`), or connect it to something computed later (pseudo_connect, or recv's
// `delegate`). If one rank leaves out a pass that another one makes, the job hangs until the
// watchdog names the rank that is behind.
//
// Values have float types and any shape, which travels with them. They arrive on the communicator's
// device (CommunicatorOptions::device), gradients on the value's device. GPU values pass through
// the host, so such steps are not recorded. The communicator must not be the one on which an
// optimizer exchanges gradients, and must outlive the graph. A rank cannot send to itself.
#pragma once

#include <vector>

#include "communicator/communicator.hpp"
#include "communicator/send_queue.hpp"
#include "nn/variable.hpp"

namespace tasuki::functions {

// Returns the delegate variable, a scalar 0. May block until `rank` has called recv().
Variable send(const Variable& x, Communicator& communicator, int rank, int tag = 0);
// Sends several values in one message, for recv_many().
Variable send(const std::vector<Variable>& xs, Communicator& communicator, int rank, int tag = 0);

// Receives from `rank`. A backward pass through the result continues through `delegate`, which may
// be undefined.
Variable recv(Communicator& communicator, int rank, const Variable& delegate = {}, int tag = 0);
std::vector<Variable> recv_many(Communicator& communicator, int rank, const Variable& delegate = {},
                                int tag = 0);

// Receives several values, for callers that may leave some or all of them unused. A backward pass
// through `delegate` (pseudo_connect it to a result) sends their gradients, zeros for unused
// values, so that the sender does not wait forever.
struct Received {
  std::vector<Variable> values;
  Variable delegate;
};
Received receive(Communicator& communicator, int rank, const Variable& delegate = {}, int tag = 0);

// send() and receive() that leave their messages to a queue, values as well as gradients: this rank
// does not wait until they have been received. The queue must outlive the graph; wait() for it
// after the backward pass.
Variable send(const std::vector<Variable>& xs, SendQueue& queue, int rank, int tag = 0);
Received receive(SendQueue& queue, int rank, const Variable& delegate = {}, int tag = 0);

// Returns `x` unchanged; a backward pass through it also continues through `delegate`.
Variable pseudo_connect(const Variable& delegate, const Variable& x);
std::vector<Variable> pseudo_connect(const Variable& delegate, const std::vector<Variable>& xs);

}  // namespace tasuki::functions
