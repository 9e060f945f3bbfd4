// LSTM and GRU on the CPU, as sequence_operations.hpp describes them. One product adds what the
// inputs of all steps contribute; each step then has the product of the states and one pass over
// the gates.
#pragma once

#include "tensor/sequence_operations.hpp"

namespace tasuki {

SequenceOperations::Outputs cpu_recurrent(const RecurrentLayer& layer, const Tensor& x,
                                          const Tensor& lengths, const Tensor& states,
                                          std::shared_ptr<Workspace>* workspace);
std::shared_ptr<Workspace> cpu_prepare_recurrent(const RecurrentLayer& layer, std::int64_t items);
SequenceOperations::InputGradients cpu_recurrent_backward(
    const RecurrentLayer& layer, const SequenceOperations::Outputs& upstream,
    const Workspace& workspace, const RecurrentGradients& gradients);

}  // namespace tasuki
