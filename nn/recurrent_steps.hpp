// A recurrent network step by step, where each input depends on the result before: translation,
// generated text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/n_step_rnn.hpp"

namespace tasuki {

// Computes values without gradients and without dropout, by the weights as they were when it was
// made, whose order of memory is prepared once for all steps.
class RecurrentSteps {
 public:
  // `states`: what each layer begins with (NStepRNN::Result::states), of at least one example. The
  // network has one direction and must outlive this object.
  RecurrentSteps(const NStepRNN& network, const std::vector<Variable>& states);

  // One more element of each example: N x in_size to N x out_size.
  Tensor next(const Tensor& x);
  // Goes on with these examples alone, by their rows in the last call of next().
  void keep(std::span<const std::int64_t> rows);

 private:
  std::vector<RecurrentLayer> layers_;
  std::vector<Tensor> states_;
};

}  // namespace tasuki
