// LSTM and GRU on GPUs, as sequence_operations.hpp describes them: one product for the inputs of
// all steps, and per step one of the states and one kernel for the gates.
#pragma once

#include "tensor/sequence_operations.hpp"

namespace tasuki {

SequenceOperations::Outputs cuda_recurrent(const RecurrentLayer& layer, const Tensor& x,
                                           const Tensor& lengths, const Tensor& states,
                                           std::shared_ptr<Workspace>* workspace);
SequenceOperations::InputGradients cuda_recurrent_backward(
    const RecurrentLayer& layer, const SequenceOperations::Outputs& upstream,
    const Workspace& workspace, const RecurrentGradients& gradients);

}  // namespace tasuki
