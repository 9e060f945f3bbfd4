// Embeddings on the CPU, as sequence_operations.hpp describes them.
#pragma once

#include <optional>

#include "tensor/tensor.hpp"

namespace tasuki {

Tensor cpu_embed(const Tensor& w, const Tensor& ids, std::optional<std::int64_t> ignore);
void cpu_embed_backward(const Tensor& ids, const Tensor& dy, std::optional<std::int64_t> ignore,
                        const Tensor& dw, bool accumulate);

}  // namespace tasuki
