// Trains a multi-layer perceptron on MNIST, with several models of two ranks each: ChainerMN's
// train_mnist_dual_parallel.
//
//   build/apps/tasuki-run -np 4 build/apps/train_mnist_dual_parallel

#include "apps/mlp_on_two_ranks.hpp"

int main(int argc, char** argv) {
  tasuki::TrainingProgram program(
      "train_mnist_dual_parallel",
      "trains a multi-layer perceptron on MNIST, each model's layers on a pair of ranks",
      "tasuki-run -np 4 train_mnist_dual_parallel --epoch 20");
  tasuki::MlpOnTwoRanks mlp;
  mlp.add_to(program);
  program.settings.model_ranks = 2;
  return program.run(argc, argv);
}
