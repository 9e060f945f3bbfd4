// Trains LeNet on Fashion-MNIST with plain SGD, data-parallel over MPI. Unless -b is given, the
// global batch is the same for any number of ranks, so that only the time changes.
//
//   build/apps/tasuki-run -np 2 build/apps/train_lenet

#include "models/lenet.hpp"
#include "program/training_program.hpp"

int main(int argc, char** argv) {
  tasuki::TrainingProgram program("train_lenet",
                                  "trains LeNet on Fashion-MNIST, or data in its format, over MPI",
                                  "tasuki-run -np 2 train_lenet -b 256 --lr-scaling linear");
  program.settings.batchsize = program.settings.reference_batch = 256;
  program.settings.global_batch = 256;
  program.settings.epoch = 10;
  program.settings.optimizer = "sgd";
  program.settings.lr = 0.2;
  program.dataset = "fashion-mnist";
  program.example_shape = tasuki::Shape{1, 28, 28};
  program.create_model = [](const tasuki::DatasetHeader& data) {
    return tasuki::create_classifier(tasuki::lenet(data.field("t").classes));
  };
  return program.run(argc, argv);
}
