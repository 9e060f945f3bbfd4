// Gradients of weights that are computed after the backward pass, together with others.
#pragma once

#include <memory>

#include "tensor/tensor.hpp"

namespace tasuki {

namespace detail {
struct Node;
}

// Computes gradients that are single products. BackwardPass::late says which passes use it. While a
// gradient can still be asked for, Node::late points here.
class LateProducts {
 public:
  LateProducts() = default;
  virtual ~LateProducts() = default;
  LateProducts(const LateProducts&) = delete;
  LateProducts& operator=(const LateProducts&) = delete;

  // The gradient of the parameter with this leaf is dy^T x, to which other passes may add; dy is
  // N x O, x is N x I, N > 0, both plain float32 on a CPU. Their values may change after the pass.
  // True: the product was written to the leaf's memory, or it is kept, with Node::late set. False:
  // the caller computes it.
  virtual bool take(const std::shared_ptr<detail::Node>& leaf, const Tensor& dy,
                    const Tensor& x) = 0;
  // While Node::late points here: writes the product to the leaf's memory, or forgets it.
  virtual void write(detail::Node& leaf) = 0;
  virtual void drop(detail::Node& leaf) = 0;
};

}  // namespace tasuki
