// Exchanges gradients and values of a whole model, for loops without an Optimizer: ChainerMN's
// multi_node_mean_grad and bcast_data.
#pragma once

#include "communicator/communicator.hpp"
#include "nn/module.hpp"

namespace tasuki {

// Replaces each parameter's gradient by the sum over all ranks divided by `divisor` (0: the number
// of ranks). A gradient that this rank did not compute counts as zeros. Parameters without a shape
// are left out. Collective: if parameters differ between ranks, all throw (kind disagreement).
// Gradients are copied into one array and back, which an Optimizer avoids.
void mean_gradients(Communicator& communicator, const Module& model, double divisor = 0);

// Copies rank 0's parameters and buffers to all ranks; parameters without a shape are left out.
// Collective: if paths or shapes of parameters or buffers differ between ranks, all throw (kind
// disagreement).
void bcast_data(Communicator& communicator, const Module& model);

}  // namespace tasuki
