// A loss whose gradients a test chooses.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "nn/function.hpp"

namespace tasuki::testing {

// A scalar that stands for the sum of values[i] * weights[i]: the gradient of values[i] is
// weights[i]. Its own value is 0.
inline Variable weighted_sum(const std::vector<Variable>& values, std::vector<Tensor> weights) {
  class WeightedSum final : public Function {
   public:
    explicit WeightedSum(std::vector<Tensor> weights) : weights_(std::move(weights)) {}
    const char* name() const override { return "weighted_sum"; }
    void backward(const Tensor&, Gradients& gradients) override {
      for (std::size_t i = 0; i < weights_.size(); ++i)
        if (gradients.needed(i)) gradients.add(i, weights_[i]);
    }

   private:
    std::vector<Tensor> weights_;
  };
  return Function::record(Tensor::zeros({}), values,
                          [&] { return std::make_unique<WeightedSum>(std::move(weights)); });
}

}  // namespace tasuki::testing
