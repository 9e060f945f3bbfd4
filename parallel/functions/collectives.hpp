// Differentiable collectives (chainermn.functions; reduce_scatter and allreduce are ours): every
// rank of the communicator calls them, in the same order, in both passes.
//
// The rules in messages.hpp also apply here. The gradient of a rank's input is the sum of the
// gradients that all ranks computed from it: a backward pass on all ranks computes the gradient of
// the sum of their losses. Unless stated otherwise, shapes may differ between ranks.
#pragma once

#include <vector>

#include "communicator/communicator.hpp"
#include "nn/variable.hpp"

namespace tasuki::functions {

// Returns the root's value. Other ranks pass a delegate variable, or nothing. The backward pass
// sums gradients at the root.
Variable bcast(Communicator& communicator, const Variable& x, int root = 0);
// At the root, the values of all ranks in their order; on other ranks one delegate variable.
std::vector<Variable> gather(Communicator& communicator, const Variable& x, int root = 0);
// The root's value for this rank. The root passes one value per rank; other ranks pass nothing, or
// delegate variables.
Variable scatter(Communicator& communicator, const std::vector<Variable>& xs, int root = 0);
// The values of all ranks, in their order.
std::vector<Variable> allgather(Communicator& communicator, const Variable& x);
// Sends xs[i] to rank i; result i is from rank i.
std::vector<Variable> alltoall(Communicator& communicator, const std::vector<Variable>& xs);
// The sum of all ranks' values, of one shape and type, on every rank.
Variable allreduce(Communicator& communicator, const Variable& x);
// This rank's part of that sum. Each rank gets consecutive items of axis 0, in the order of ranks;
// if their number is not divisible by the number of ranks, the first ranks get one more each.
Variable reduce_scatter(Communicator& communicator, const Variable& x);

}  // namespace tasuki::functions
