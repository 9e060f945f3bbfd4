// Trains a multi-layer perceptron on MNIST, with several models of two ranks each: ChainerMN's
// train_mnist_dual_parallel.
//
//   build/apps/tasuki-run -np 4 build/apps/train_mnist_dual_parallel

#include "parallel/mlp_over_ranks.hpp"
#include "program/training_program.hpp"

int main(int argc, char** argv) {
  tasuki::TrainingProgram program(
      "train_mnist_dual_parallel",
      "trains a multi-layer perceptron on MNIST, each model's layers on a pair of ranks",
      "tasuki-run -np 4 train_mnist_dual_parallel --epoch 20");
  std::int64_t unit = 1000;
  program.flags.add("unit,u", unit, {1, 1 << 20}, "N", "units in each of the two hidden layers")
      .in_short("units in each hidden layer");
  std::int64_t micro_batches = 1;
  program.flags
      .add("micro-batches", micro_batches, {1, 1 << 20}, "M",
           "parts of each batch; with several, both ranks of a model compute at the same "
           "time, and the second one has the loss")
      .in_short("parts of each batch, in a pipeline");
  program.settings.model_ranks = 2;
  program.dataset = "mnist";
  program.example_shape = tasuki::Shape{784};
  program.create_part = [&](const tasuki::DatasetHeader& data, tasuki::Communicator& model) {
    const std::int64_t classes = data.field("t").classes;
    if (micro_batches > 1)
      return tasuki::create_stage_of_classifier(tasuki::mlp_in_stages(model, 784, unit, classes),
                                                micro_batches);
    return tasuki::create_part_of_classifier(tasuki::mlp_over_ranks(model, 784, unit, classes),
                                             model.rank() == 0);
  };
  program.banner = [&] { return tasuki::program::BannerLines{{"Num unit", std::to_string(unit)}}; };
  return program.run(argc, argv);
}
