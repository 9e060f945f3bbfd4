// Trains a multi-layer perceptron on MNIST, data-parallel over MPI: ChainerMN's train_mnist.
//
//   build/apps/tasuki-run -np 4 build/apps/train_mnist

#include "models/mlp.hpp"
#include "program/training_program.hpp"

int main(int argc, char** argv) {
  tasuki::TrainingProgram program(
      "train_mnist", "trains a multi-layer perceptron on MNIST, or data in its format, over MPI",
      "tasuki-run -np 4 train_mnist --communicator hierarchical --epoch 20");
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
