// Trains a multi-layer perceptron on MNIST with several devices in one process: Chainer's
// train_mnist_data_parallel.
//
//   build/apps/train_mnist_data_parallel --devices 0,1
//   build/apps/train_mnist_data_parallel --devices cpu:2 --split auto

#include "models/mlp.hpp"
#include "program/training_program.hpp"

int main(int argc, char** argv) {
  tasuki::TrainingProgram program(
      "train_mnist_data_parallel",
      "trains a multi-layer perceptron on MNIST with several devices in one process",
      "train_mnist_data_parallel --devices cpu:2 --split auto");
  program.settings.workers.emplace();
  program.settings.batchsize = 400;
  program.settings.out = "result_data_parallel";
  std::int64_t unit = 1000;
  program.flags.add("unit,u", unit, {1, 1 << 20}, "N", "units in each of the two hidden layers")
      .in_short("units in each hidden layer");
  program.dataset = "mnist";
  program.example_shape = tasuki::Shape{784};
  program.create_model = [&](const tasuki::DatasetHeader& data) {
    return tasuki::create_classifier(
        std::make_unique<tasuki::MLP>(784, unit, data.field("t").classes));
  };
  program.banner = [&] { return tasuki::program::BannerLines{{"Num unit", std::to_string(unit)}}; };
  return program.run(argc, argv);
}
