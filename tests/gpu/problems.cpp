#include "problems.hpp"

namespace tasuki::testing {

Problems all_problems() {
  Problems problems;
  add_elementwise_problems(problems);
  add_linear_problems(problems);
  add_convolution_problems(problems);
  add_pooling_problems(problems);
  add_batch_norm_problems(problems);
  add_loss_problems(problems);
  add_optimizer_problems(problems);
  add_image_problems(problems);
  add_copy_problems(problems);
  add_step_problems(problems);
  add_elementwise_operations_problems(problems);
  add_array_operations_problems(problems);
  add_normalization_operations_problems(problems);
  add_sequence_operations_problems(problems);
  add_attention_operations_problems(problems);
  add_image_operations_problems(problems);
  add_loss_operations_problems(problems);
  add_residual_problems(problems);
  return problems;
}

}  // namespace tasuki::testing
