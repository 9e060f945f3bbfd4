// Every function of a backend and its gradients, as problems that any side can compute.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "side.hpp"

namespace tasuki::testing {

struct Problem {
  std::string name;  // subject/variant
  std::function<Results(Side&)> compute;
};
using Problems = std::vector<Problem>;

void add_elementwise_problems(Problems& problems);
void add_linear_problems(Problems& problems);
void add_convolution_problems(Problems& problems);
void add_pooling_problems(Problems& problems);
void add_batch_norm_problems(Problems& problems);
void add_loss_problems(Problems& problems);
void add_optimizer_problems(Problems& problems);
void add_image_problems(Problems& problems);
void add_copy_problems(Problems& problems);
void add_step_problems(Problems& problems);
void add_elementwise_operations_problems(Problems& problems);
void add_array_operations_problems(Problems& problems);
void add_normalization_operations_problems(Problems& problems);
void add_sequence_operations_problems(Problems& problems);
void add_attention_operations_problems(Problems& problems);
void add_image_operations_problems(Problems& problems);
void add_loss_operations_problems(Problems& problems);
void add_residual_problems(Problems& problems);

Problems all_problems();

}  // namespace tasuki::testing
