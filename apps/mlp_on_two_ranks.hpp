// What train_mnist_model_parallel and train_mnist_dual_parallel share: a perceptron for MNIST, the
// layers of each model on two ranks.
#pragma once

#include <cstdint>

#include "program/training_program.hpp"

namespace tasuki {

struct MlpOnTwoRanks {
  std::int64_t units = 1000;       // in each hidden layer
  std::int64_t micro_batches = 1;  // of each batch

  // Adds the flags --unit and --micro-batches, data, model and banner. This object must outlive the
  // program's run.
  void add_to(TrainingProgram& program);
};

}  // namespace tasuki
