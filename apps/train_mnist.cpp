// Trains a multi-layer perceptron on MNIST, data-parallel over MPI: ChainerMN's train_mnist.
//
//   build/apps/tasuki-run -np 4 build/apps/train_mnist
//
// It spells out what other programs leave to TrainingProgram (train_lenet.cpp is the shortest).

#include <optional>

#include "models/mlp.hpp"
#include "program/data/array_data.hpp"
#include "program/training_program.hpp"
#include "program/training_run.hpp"
#include "training/extensions/evaluator.hpp"

using namespace tasuki;

// Runs on every rank.
static void train(TrainingRun& run, std::int64_t unit) {
  Communicator& communicator = run.communicator();  // of all ranks, as --communicator says

  // "t" are the labels, "x" the images.
  const std::int64_t classes = run.data_header().field("t").classes;
  const auto create_model = [&] {
    return create_classifier(std::make_unique<MLP>(784, unit, classes));
  };
  const TrainingModel trained = create_model();
  Module& model = *trained.model;
  run.initialize(model);   // weights from --seed or --init
  model.to(run.device());  // this rank's: the CPU, or one of the node's GPUs

  // All ranks start from rank 0's weights, and each update uses the mean gradient of all ranks;
  // with
  // --sync-every, of this machine's.
  const auto optimizer =
      create_multi_node_optimizer(run.create_optimizer(), run.gradient_communicator());
  run.configure(*optimizer, model);
  // False if there is nothing to train: --dry-run, --find-batchsize, or a resumed run at its end.
  if (!run.prepare(*optimizer, trained.loss)) return;

  // Rank 0 reads the examples and sends each rank its share (with --stream each rank reads its
  // own).
  const Share training_share = run.training_share();
  const std::optional<Share> test_share =
      run.has_test_data() ? std::optional(run.test_share()) : std::nullopt;

  run.train([&] {
    auto updater =
        std::make_unique<StandardUpdater>(run.training_iterator(training_share), *optimizer,
                                          trained.loss, run.updater_settings(create_model));
    const LossFunction loss = updater->evaluation_loss(trained.loss);
    auto trainer =
        std::make_unique<Trainer>(std::move(updater), run.stop_trigger(), run.output_folder());
    if (test_share)
      trainer->extend(create_multi_node_evaluator(  // sums over all ranks
          std::make_unique<Evaluator>(run.test_iterator(*test_share), loss), communicator));
    run.attach_extensions(*trainer);  // log, table, checkpoints; loads the state of --resume
    return trainer;
  });
}

int main(int argc, char** argv) {
  TrainingProgram program(
      "train_mnist", "trains a multi-layer perceptron on MNIST, or data in its format, over MPI",
      "tasuki-run -np 4 train_mnist --communicator hierarchical --epoch 20");
  std::int64_t unit = 1000;
  program.flags.add("unit,u", unit, {1, 1 << 20}, "N", "units in each of the two hidden layers")
      .in_short("units in each hidden layer");
  program.dataset = "mnist";
  program.flags
      .add("dataset,d", program.dataset, {"mnist", "hdf5", "npy"}, "NAME",
           "mnist, or arrays with the examples and their labels (--fields): hdf5, in the HDF5 file "
           "--data, or npy, in .npy files of the folder --data or in one .npz file")
      .in_short("mnist, or arrays in --data: hdf5, npy");
  program::add_array_file_flags(program.flags, program.arrays);
  program.example_shape = Shape{784};
  program.banner = [&] { return program::BannerLines{{"Num unit", std::to_string(unit)}}; };
  program.train = [&](TrainingRun& run) { train(run, unit); };
  return program.run(argc, argv);
}
