// Where functions with a scale gamma and a shift beta (inputs x, gamma, beta) write the gradients
// of both: batch_norm, layer_norm, group_norm.
#pragma once

#include "nn/function.hpp"

namespace tasuki {

struct GammaBetaGradients {
  Tensor gamma, beta;
  bool accumulate = false;  // add to their contents
};

// Backends compute both at once; one that is not needed goes to temporary memory.
inline GammaBetaGradients gamma_beta_gradients(Gradients& gradients, const Tensor& gamma) {
  const auto destination = [&](std::size_t i) -> Gradients::Destination {
    if (gradients.needed(i)) return gradients.into(i, gamma.shape());
    return {Tensor::empty(gamma.shape(), DType::float32, gamma.device()), false};
  };
  const Gradients::Destination dgamma = destination(1), dbeta = destination(2);
  const bool accumulate = dgamma.accumulate || dbeta.accumulate;
  // If only one of the two accumulates, the other starts from zero.
  if (accumulate && !dgamma.accumulate) dgamma.tensor.fill(0);
  if (accumulate && !dbeta.accumulate) dbeta.tensor.fill(0);
  return {dgamma.tensor, dbeta.tensor, accumulate};
}

}  // namespace tasuki
