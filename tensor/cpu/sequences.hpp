// Embeddings, LSTM and GRU on the CPU, as sequence_operations.hpp describes them.
#pragma once

#include <memory>
#include <optional>

#include "tensor/sequence_operations.hpp"

namespace tasuki {

Tensor cpu_embed(const Tensor& w, const Tensor& ids, std::optional<std::int64_t> ignore);
void cpu_embed_backward(const Tensor& ids, const Tensor& dy, std::optional<std::int64_t> ignore,
                        const Tensor& dw, bool accumulate);

// One product adds what the inputs of all steps contribute; each step then has the product of the
// states and one pass over the gates.
SequenceOperations::Outputs cpu_recurrent(const RecurrentLayer& layer, const Tensor& x,
                                          const Tensor& lengths, const Tensor& states,
                                          std::shared_ptr<Workspace>* workspace);
std::shared_ptr<Workspace> cpu_prepare_recurrent(const RecurrentLayer& layer, std::int64_t items);
SequenceOperations::InputGradients cpu_recurrent_backward(
    const RecurrentLayer& layer, const SequenceOperations::Outputs& upstream,
    const Workspace& workspace, const RecurrentGradients& gradients);

}  // namespace tasuki
