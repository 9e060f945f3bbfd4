// Trains VGG-16 with batch normalisation on CIFAR-10 or CIFAR-100, with the channels of its
// convolutions divided among ranks: ChainerMN's parallel_convolution.
//
//   build/apps/tasuki-run -np 2 build/apps/train_cifar_channel_parallel

#include "models/vgg.hpp"
#include "parallel/split_layers.hpp"
#include "program/training_program.hpp"

int main(int argc, char** argv) {
  tasuki::TrainingProgram program(
      "train_cifar_channel_parallel",
      "trains VGG-16 on CIFAR-10 or CIFAR-100, with its channels divided among ranks",
      "tasuki-run -np 2 train_cifar_channel_parallel --epoch 20");
  program.settings.batchsize = 64;
  program.settings.epoch = 20;
  program.settings.optimizer = "momentum_sgd";
  program.settings.lr = 0.05;
  program.settings.weight_decay = 5e-4;
  program.settings.model_ranks = 0;
  program.dataset = "cifar10";
  program.flags.add("dataset,d", program.dataset, {"cifar10", "cifar100"}, "NAME",
                    "cifar10, or cifar100 (100 classes)");
  program.flags
      .add("model-ranks", program.settings.model_ranks, {0, 64}, "N",
           "ranks that divide the channels of one model among them; 0: all ranks. Such ranks get "
           "the same data; --batchsize counts the examples of one model")
      .in_short("ranks that share one model");
  // ChainerMN's names for flags that all programs have.
  program.flags.alias("lr", {"learnrate"});
  program.flags.alias("snapshot-every", {"frequency", "f"}, {{"-1", "end"}});
  std::shared_ptr<tasuki::Communicator> channels;  // of the ranks that hold one model
  program.create_part = [&](const tasuki::DatasetHeader& data, tasuki::Communicator& model) {
    channels = model.split(0, model.rank());
    const auto convolution = [&](std::int64_t from, std::int64_t to) {
      return std::make_unique<tasuki::ParallelConv2d>(from, to, 3, channels, /*stride=*/1,
                                                      /*pad=*/1, /*bias=*/false,
                                                      tasuki::initializers::he_normal());
    };
    return tasuki::create_classifier(
        tasuki::vgg16_bn(data.field("t").classes, data.field("x").shape[0], convolution));
  };
  return program.run(argc, argv);
}
