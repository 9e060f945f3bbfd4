// Trains LeNet on Fashion-MNIST with plain SGD, data-parallel over MPI. The global batch stays the
// same for any number of ranks unless -b is given, so that only the time changes.
//
//   mpirun -np 2 build/apps/train_lenet

#include "tasuki/job/run_job.hpp"
#include "tasuki/models/lenet.hpp"
#include "tasuki/program/training_program.hpp"

namespace tasuki::program {
namespace {

int train_lenet(int argc, char** argv) {
  TrainingSettings settings;
  settings.batchsize = settings.reference_batch = 256;
  settings.global_batch = 256;
  settings.epoch = 10;
  settings.optimizer = "sgd";
  settings.lr = 0.2;
  Options options("train_lenet", "trains LeNet on Fashion-MNIST, or data in its format, over MPI",
                  "mpirun -np 2 train_lenet -b 256 --lr-scaling linear");
  add_training_options(options, settings);

  const std::optional<Job> job = start_job(options, settings, argc, argv);
  if (!job) return 0;

  TrainingProgram program;
  program.dataset = "fashion-mnist";
  program.example_shape = Shape{1, 28, 28};
  program.create_model = [](const DatasetHeader& data) { return lenet(data.field("t").classes); };
  run_training(*job, settings, program);
  return 0;
}

}  // namespace
}  // namespace tasuki::program

int main(int argc, char** argv) {
  return tasuki::run_job(argc, argv, tasuki::program::train_lenet);
}
