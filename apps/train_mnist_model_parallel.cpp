// Trains a multi-layer perceptron on MNIST, with its first layer on one rank and the others on a
// second: ChainerMN's train_mnist_model_parallel.
//
//   build/apps/tasuki-run -np 2 build/apps/train_mnist_model_parallel

#include "apps/mlp_on_two_ranks.hpp"

int main(int argc, char** argv) {
  tasuki::TrainingProgram program(
      "train_mnist_model_parallel",
      "trains a multi-layer perceptron on MNIST, its layers on two ranks",
      "tasuki-run -np 2 train_mnist_model_parallel --epoch 20");
  tasuki::MlpOnTwoRanks mlp;
  mlp.add_to(program);
  program.settings.model_ranks = 0;  // one model
  program.check = [](const tasuki::Communicator& communicator) {
    if (communicator.size() != 2)
      tasuki::fail_everywhere(tasuki::ErrorKind::usage,
                              "train_mnist_model_parallel: expected 2 ranks, found {} (tasuki-run "
                              "-np 2); train_mnist_dual_parallel takes any even number",
                              communicator.size());
  };
  return program.run(argc, argv);
}
