// Differentiable messages between two ranks (chainermn.functions: send, recv, pseudo_connect).
//
// A backward pass sends gradients along the same way back: that of send() receives the gradient
// that the receiver's recv() sends. Functions run in the reverse of the order in which they were
// called, so a backward pass does not deadlock where the forward pass does not. It reaches a
// function only from a result that was computed from what it returned. Where nothing is computed
// from a sent value, send()'s delegate variable stands for it: start the backward pass there
// (`send(h, comm, 1).backward()`), or tie it to what is computed later (pseudo_connect, or recv's
// `delegate`). If one rank leaves out a pass that another one makes, the job hangs until the
// watchdog names the rank that is behind.
//
// Values are of float types and any shape, which travels with them. They arrive on the device of
// the communicator (CommunicatorOptions::device), gradients on that of the value. GPU values pass
// through the host, so such steps are not recorded. The communicator must not be the one on which
// an optimizer exchanges gradients, and must outlive the graph. A rank cannot send to itself.
#pragma once

#include <vector>

#include "communicator/communicator.hpp"
#include "nn/variable.hpp"

namespace tasuki::functions {

// Returns the delegate variable, a scalar 0. May block until `rank` has called recv().
Variable send(const Variable& x, Communicator& communicator, int rank, int tag = 0);
// Several values in one message, for recv_many().
Variable send(const std::vector<Variable>& xs, Communicator& communicator, int rank, int tag = 0);

// Receives from `rank`. A backward pass through the result goes on through `delegate`, which may be
// undefined.
Variable recv(Communicator& communicator, int rank, const Variable& delegate = {}, int tag = 0);
std::vector<Variable> recv_many(Communicator& communicator, int rank, const Variable& delegate = {},
                                int tag = 0);

// Several values, for callers that may compute nothing from them: a backward pass through
// `delegate` (pseudo_connect it to a result) sends their gradients, zeros for unused values, so
// that the sender does not wait forever.
struct Received {
  std::vector<Variable> values;
  Variable delegate;
};
Received receive(Communicator& communicator, int rank, const Variable& delegate = {}, int tag = 0);

// Returns `x` unchanged; a backward pass through it goes on through `delegate`, too.
Variable pseudo_connect(const Variable& delegate, const Variable& x);
std::vector<Variable> pseudo_connect(const Variable& delegate, const std::vector<Variable>& xs);

}  // namespace tasuki::functions
