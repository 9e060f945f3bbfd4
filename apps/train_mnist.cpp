// Trains a multi-layer perceptron on MNIST, data-parallel over MPI: ChainerMN's train_mnist.
//
//   build/apps/tasuki-run -np 4 build/apps/train_mnist
//
// The function train() spells out what other programs leave to TrainingProgram.

#include "models/mlp.hpp"
#include "program/training_program.hpp"
#include "program/training_run.hpp"
#include "training/extensions/evaluator.hpp"

namespace {

using namespace tasuki;

// Every rank calls it.
void train(TrainingRun& run, std::int64_t unit) {
  Communicator& communicator = run.communicator();  // all ranks, by --communicator
  const Device device = run.device();               // this rank's: the CPU, or its GPU of the node

  Classifier model(std::make_unique<MLP>(784, unit, run.examples().field("t").classes));
  run.initialize(model);
  model.to(device);
  const LossFunction loss = classification_loss(model);

  const auto optimizer = create_multi_node_optimizer(run.create_optimizer(), communicator);
  run.set_up(*optimizer, model);  // all ranks start from rank 0's weights

  if (!run.begin(*optimizer, loss))
    return;  // --dry-run, --find-batchsize, or nothing is left to do

  // Rank 0 reads the examples and sends each rank its share.
  const Share examples = scatter_dataset(run.training_source(), communicator, run.dealing());
  const Share tests = scatter_dataset(run.test_source(), communicator);

  auto updater = std::make_unique<StandardUpdater>(run.training_batches(examples), *optimizer, loss,
                                                   run.step_settings());
  auto trainer = std::make_unique<Trainer>(std::move(updater), run.end_of_training(), run.output());
  trainer->extend(create_multi_node_evaluator(
      std::make_unique<Evaluator>(run.test_batches(tests), loss), communicator));
  run.extend(*trainer);  // log, table, checkpoints; loads the state of --resume
  run.train(std::move(trainer));
}

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program(
      "train_mnist", "trains a multi-layer perceptron on MNIST, or data in its format, over MPI",
      "tasuki-run -np 4 train_mnist --communicator hierarchical --epoch 20");
  std::int64_t unit = 1000;
  program.flags.add("unit,u", unit, {1, 1 << 20}, "N", "units in each of the two hidden layers")
      .in_short("units in each hidden layer");
  program.dataset = "mnist";
  program.example_shape = Shape{784};
  program.banner = [&] { return program::BannerLines{{"Num unit", std::to_string(unit)}}; };
  program.train = [&](TrainingRun& run) { train(run, unit); };
  return program.run(argc, argv);
}
