// Trains a multi-layer perceptron on MNIST with several devices in one process: Chainer's
// train_mnist_data_parallel.
//
//   build/apps/train_mnist_data_parallel --devices 0,1
//   build/apps/train_mnist_data_parallel --devices cpu:2 --split auto

#include "tasuki/job/run_job.hpp"
#include "tasuki/models/mlp.hpp"
#include "tasuki/program/training_program.hpp"
#include "tasuki/program/workers.hpp"
#include "tasuki/training/workers/parallel_updater.hpp"

namespace tasuki::program {
namespace {

void check_one_process(const Job& job, const TrainingSettings& settings) {
  if (job.communicator->size() > 1)
    fail_everywhere(ErrorKind::usage,
                    "train_mnist_data_parallel is one process for several devices, {} were "
                    "started; for one process a device take train_mnist",
                    job.communicator->size());
  if (settings.gpu != "none")
    fail_everywhere(ErrorKind::usage, "--gpu: here --devices names the GPUs, --devices 0,1 say");
}

int train_mnist_data_parallel(int argc, char** argv) {
  TrainingSettings settings;
  settings.batchsize = 400;
  settings.out = "result_data_parallel";
  WorkerSettings workers;
  std::int64_t unit = 1000;
  Options options("train_mnist_data_parallel",
                  "trains a multi-layer perceptron on MNIST with several devices in one process",
                  "train_mnist_data_parallel --devices cpu:2 --split auto");
  add_training_options(options, settings);
  options.group("Workers");
  add_worker_options(options, workers);
  options.group("Model");
  options.add("unit,u", unit, {1, 1 << 20}, "N", "units in each of the two hidden layers");

  std::optional<Job> job = start_job(options, settings, argc, argv);
  if (!job) return 0;
  check_one_process(*job, settings);
  const std::size_t count = workers.devices.size();
  const BatchSplit split = parse_split(workers.split, count);
  prepare_devices(workers.devices);
  job->device = workers.devices[0];
  job->device_text = worker_names(workers.devices);
  const int threads = threads_of_worker(*job, count);

  TrainingProgram program;
  program.dataset = "mnist";
  program.example_shape = Shape{784};
  program.create_model = [unit](const DatasetHeader& data) {
    return std::make_unique<MLP>(784, unit, data.field("t").classes);
  };
  program.banner = {{"Num unit", std::to_string(unit)},
                    {"Workers", fmt::format("{}, {} thread{} each on a CPU, batches split {}",
                                            devices_text(workers.devices), threads,
                                            threads == 1 ? "" : "s", workers.split)}};
  std::vector<std::unique_ptr<Classifier>> further;  // models of all workers but the first
  program.engine_devices = workers.devices;
  program.create_engine = [&](const DatasetHeader& data, Classifier& first, Optimizer& optimizer,
                              std::unique_ptr<Iterator> batches, DType activations) {
    further.clear();
    std::vector<ParallelUpdater::Worker> all = {{first, classification_loss(first), threads}};
    for (std::size_t i = 1; i < count; ++i) {
      further.push_back(std::make_unique<Classifier>(program.create_model(data)));
      Classifier& model = *further.back();
      model.to(workers.devices[i]);
      all.push_back({model, classification_loss(model), threads});
    }
    ParallelUpdater::Settings updating;
    updating.seed = static_cast<std::uint64_t>(settings.seed);
    updating.split = split;
    updating.activations = activations;
    auto updater =
        std::make_unique<ParallelUpdater>(std::move(batches), optimizer, std::move(all), updating);
    LossFunction evaluation = updater->evaluation_loss();
    return TrainingEngine{std::move(updater), std::move(evaluation)};
  };
  run_training(*job, settings, program);
  return 0;
}

}  // namespace
}  // namespace tasuki::program

int main(int argc, char** argv) {
  return tasuki::run_job(argc, argv, tasuki::program::train_mnist_data_parallel);
}
