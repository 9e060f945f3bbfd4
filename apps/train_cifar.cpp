// Trains a convnet on CIFAR-10, CIFAR-100 or a folder of images, data-parallel over MPI.
//
//   mpirun -np 2 build/apps/train_cifar --arch cnn10

#include <map>

#include "tasuki/job/run_job.hpp"
#include "tasuki/models/catalog.hpp"
#include "tasuki/program/training_program.hpp"

namespace tasuki::program {
namespace {

// Small convnets with batch normalisation, as in the papers on residual networks.
const Recipe of_small_convnets = {{"batchsize", "128"},          {"epoch", "100"},
                                  {"optimizer", "momentum_sgd"}, {"lr", "0.1"},
                                  {"lr-scaling", "linear"},      {"lr-schedule", "steps"}};

const std::map<std::string, Recipe> recipes = {
    {"cnn10", of_small_convnets},
    {"wrn_28_10", of_small_convnets},
    {"vgg_small", {{"batchsize", "64"}, {"epoch", "50"}, {"optimizer", "adam"}, {"lr", "0.001"}}},
    // ChainerMN's CIFAR example.
    {"vgg16_bn",
     {{"batchsize", "64"},
      {"epoch", "300"},
      {"optimizer", "momentum_sgd"},
      {"lr", "0.05"},
      {"weight-decay", "0.0005"},
      {"lr-schedule", "halving"}}},
    // He et al., arXiv 1512.03385, section 4.2, but for the places of the drops.
    {"resnet20",
     {{"batchsize", "128"},
      {"epoch", "160"},
      {"optimizer", "momentum_sgd"},
      {"lr", "0.1"},
      {"lr-scaling", "linear"},
      {"weight-decay", "0.0001"},
      {"lr-schedule", "steps"}}},
    {"resnet50",
     {{"batchsize", "128"},
      {"epoch", "100"},
      {"optimizer", "momentum_sgd"},
      {"lr", "0.1"},
      {"lr-scaling", "linear"},
      {"weight-decay", "0.0001"},
      {"lr-schedule", "steps"}}},
};

std::vector<ModelKind> known_models() {
  std::vector<ModelKind> kinds = model_kinds();
  std::erase_if(kinds, [](const ModelKind& kind) {
    return kind.name == "lenet";  // takes grey images of 28 x 28
  });
  return kinds;
}

int train_cifar(int argc, char** argv) {
  TrainingSettings settings;
  settings.reference_batch = 128;
  settings.augment = true;
  std::string arch = "cnn10", dataset = "cifar10";
  std::int64_t image_side = 32;
  Options options("train_cifar",
                  "trains a convnet on CIFAR-10, CIFAR-100 or a folder of images, over MPI",
                  "mpirun -np 4 train_cifar --arch wrn_28_10 --warmup 5");
  options.group("Model");
  std::vector<std::string> names;
  std::string models =
      "the network, and with it the defaults of --batchsize, --epoch and the optimizer.";
  for (const ModelKind& kind : known_models()) {
    names.push_back(kind.name);
    models += fmt::format(" `{}`: {}.", kind.name, kind.summary);
  }
  options.add("arch", arch, names, "NAME", models);
  options.add("dataset,d", dataset, {"cifar10", "cifar100", "images"}, "NAME",
              "cifar10, cifar100, or images: JPEG and PNG files in the folder --data, as "
              "train/<class>/* and test/<class>/*");
  options.add("image-size", image_side, {8, 1024}, "N",
              "pixels that images of a folder are scaled to, in height and width");
  add_training_options(options, settings);
  options.choose_defaults([&] {
    const auto found = recipes.find(arch);
    apply_recipe(found != recipes.end() ? found->second : of_small_convnets, options, settings);
  });

  const std::optional<Job> job = start_job(options, settings, argc, argv);
  if (!job) return 0;

  TrainingProgram program;
  program.dataset = dataset;
  program.image_side = image_side;
  program.create_model = [&arch](const DatasetHeader& data) {
    return create_model(arch, {data.field("t").classes, data.field("x").shape});
  };
  program.banner = {{"Model", arch}};
  run_training(*job, settings, program);
  return 0;
}

}  // namespace
}  // namespace tasuki::program

int main(int argc, char** argv) {
  return tasuki::run_job(argc, argv, tasuki::program::train_cifar);
}
