// Trains a multi-layer perceptron on MNIST, data-parallel over MPI: ChainerMN's train_mnist.
//
//   mpirun -np 4 build/apps/train_mnist

#include "common/banner.hpp"
#include "common/data.hpp"
#include "common/job.hpp"
#include "common/report.hpp"
#include "common/training_options.hpp"
#include "tasuki/communicator/environment.hpp"
#include "tasuki/dataset/share_iterator.hpp"
#include "tasuki/models/mlp.hpp"
#include "tasuki/nn/classifier.hpp"
#include "tasuki/training/extensions/evaluator.hpp"

namespace tasuki::apps {
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
  Communicator& comm = *job->communicator;
  const auto seed = static_cast<std::uint64_t>(settings.seed);

  Classifier model(std::make_unique<MLP>(784, unit, 10));
  model.initialize(seed);
  const auto optimizer = create_multi_node_optimizer(create_optimizer(settings), comm);
  optimizer->setup(model);

  const auto folder = find_data(comm, "mnist", settings);
  const auto open_train = open_split("mnist", folder, DataSplit::train, {784}, settings.examples);
  const auto open_test =
      open_split("mnist", folder, DataSplit::test, {784}, settings.test_examples);
  const DataSummary data = {folder, broadcast_header(open_train, comm),
                            broadcast_header(open_test, comm)};
  BannerLines banner = banner_lines(*job, settings, *optimizer, data);
  banner.insert(banner.begin() + 2, {"Num unit", std::to_string(unit)});

  if (settings.dry_run) {
    print_banner(*job, banner);
    print_plan(*job, settings, *optimizer, classification_loss(model), data);
    return 0;
  }

  // Rank 0 reads the files; every rank gets its share only.
  prepare_output_folder(comm, settings.out);
  ScatterOptions scattering;
  scattering.shuffle = true;
  scattering.seed = seed;
  scattering.shards = static_cast<int>(settings.shards.value_or(0));
  const Share train = scatter_dataset(open_train, comm, scattering);
  const Share test = scatter_dataset(open_test, comm);

  StandardUpdater::Settings updating;
  updating.seed = seed;
  updating.communicator = &comm;
  Trainer trainer(
      std::make_unique<StandardUpdater>(create_shuffled_iterator(train, settings.batchsize, seed),
                                        *optimizer, classification_loss(model), updating),
      stop_after(static_cast<double>(settings.epoch), settings.max_iterations), settings.out,
      &comm);
  trainer.extend(create_multi_node_evaluator(
      std::make_unique<Evaluator>(create_serial_iterator(test, settings.batchsize),
                                  classification_loss(model)),
      comm));
  extend_and_resume(trainer, settings);

  if (!settings.quiet) print_banner(*job, banner);
  const RunSummary summary(trainer);
  trainer.run();
  if (!settings.quiet) summary.print(comm);
  return 0;
}

}  // namespace
}  // namespace tasuki::apps

int main(int argc, char** argv) {
  return tasuki::run_job(argc, argv, tasuki::apps::train_mnist);
}
