// A recurrent network step by step, where each input depends on the result before: translation,
// generated text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/n_step_rnn.hpp"

namespace tasuki {

// Computes values without gradients and without dropout. It uses the weights at its construction,
// and prepares their memory order once for all steps.
class RecurrentSteps {
 public:
  // `states`: the initial state of each layer (NStepRNN::Result::states), for at least one example.
  // The network has one direction and must outlive this object.
  RecurrentSteps(const NStepRNN& network, const std::vector<Variable>& states);

  // One more element of each example: N x in_size to N x out_size.
  Tensor next(const Tensor& x);
  // Continues with these examples only, given by their rows in the last call of next().
  void keep(std::span<const std::int64_t> rows);

 private:
  std::vector<RecurrentLayer> layers_;
  std::vector<Tensor> states_;
};

}  // namespace tasuki
