// Trains a multi-layer perceptron on MNIST, data-parallel over MPI: ChainerMN's train_mnist.
//
//   mpirun -np 4 build/apps/train_mnist

#include "tasuki/job/run_job.hpp"
#include "tasuki/models/mlp.hpp"
#include "tasuki/program/training_program.hpp"

namespace tasuki::program {
namespace {

int train_mnist(int argc, char** argv) {
  TrainingSettings settings;
  std::int64_t unit = 1000;
  Options options("train_mnist",
                  "trains a multi-layer perceptron on MNIST, or data in its format, over MPI",
                  "mpirun -np 4 train_mnist --communicator hierarchical --epoch 20");
  add_training_options(options, settings);
  options.group("Model");
  options.add("unit,u", unit, {1, 1 << 20}, "N", "units in each of the two hidden layers");

  const std::optional<Job> job = start_job(options, settings, argc, argv);
  if (!job) return 0;

  TrainingProgram program;
  program.dataset = "mnist";
  program.example_shape = Shape{784};
  program.create_model = [unit](const DatasetHeader& data) {
    return std::make_unique<MLP>(784, unit, data.field("t").classes);
  };
  program.banner = {{"Num unit", std::to_string(unit)}};
  run_training(*job, settings, program);
  return 0;
}

}  // namespace
}  // namespace tasuki::program

int main(int argc, char** argv) {
  return tasuki::run_job(argc, argv, tasuki::program::train_mnist);
}
