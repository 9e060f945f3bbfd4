// Multi-layer perceptron of Chainer's MNIST example.
#pragma once

#include "nn/connection.hpp"

namespace tasuki {

// Three fully connected layers l1, l2, l3 with ReLU between them.
class MLP : public Layer {
 public:
  explicit MLP(std::int64_t n_in = 784, std::int64_t units = 1000, std::int64_t n_out = 10);

  // N x n_in (or N x ... with as many elements) to N x n_out scores.
  Variable forward(const Variable& x) override;

 private:
  Linear l1_, l2_, l3_;
};

}  // namespace tasuki
