// Trains a convolutional network on CIFAR-10, CIFAR-100 or a folder of images, data-parallel over
// MPI.
//
//   build/apps/tasuki-run -np 2 build/apps/train_cifar --arch cnn10

#include <map>

#include "models/catalog.hpp"
#include "program/data/array_data.hpp"
#include "program/training_program.hpp"

namespace {

using tasuki::program::Recipe;

// Small networks with batch normalisation, trained as in the papers on residual networks.
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
    // He et al., arXiv 1512.03385, section 4.2, except for the epochs of the drops.
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

std::vector<tasuki::ModelKind> known_models() {
  std::vector<tasuki::ModelKind> kinds = tasuki::model_kinds();
  std::erase_if(kinds, [](const tasuki::ModelKind& kind) {
    // LeNet takes grey images of 28 x 28.
    return kind.name == "lenet" || kind.smallest > 32;
  });
  return kinds;
}

std::string describe_models() {
  std::string text =
      "the network, which also sets the defaults of --batchsize, --epoch and the optimizer's "
      "flags.";
  for (const tasuki::ModelKind& kind : known_models())
    text += fmt::format(" `{}`: {}.", kind.name, kind.summary);
  return text;
}

// Arrays may have images of any shape, or in another order.
void check_images(const tasuki::Shape& example) {
  constexpr std::int64_t smallest = 8;
  if (example.rank() == 3 && example[1] >= smallest && example[2] >= smallest) return;
  tasuki::fail_everywhere(
      tasuki::ErrorKind::data,
      "field 'x': expected images of channels x height x width, such as 3x32x32 "
      "(at least {} pixels high and wide), found examples of shape {}",
      smallest, example.text());
}

}  // namespace

int main(int argc, char** argv) {
  tasuki::TrainingProgram program(
      "train_cifar",
      "trains a convolutional network on CIFAR-10, CIFAR-100 or a folder of "
      "images, over MPI",
      "tasuki-run -np 4 train_cifar --arch wrn_28_10 --warmup 5");
  program.settings.reference_batch = 128;
  program.settings.augment = true;

  std::vector<std::string> names;
  for (const tasuki::ModelKind& kind : known_models()) names.push_back(kind.name);
  std::string arch = "cnn10";
  program.dataset = "cifar10";
  program.flags.add("arch", arch, names, "NAME", describe_models()).in_short("the network");
  program.flags
      .add(
          "dataset,d", program.dataset, {"cifar10", "cifar100", "images", "hdf5", "npy"}, "NAME",
          "cifar10, cifar100 (100 classes), or images: JPEG and PNG files in the folder --data, "
          "in train/<class>/ and test/<class>/; or arrays with images of channels x height x width "
          "and their labels (--fields): hdf5, in the HDF5 file --data, or npy, in .npy files of "
          "the folder --data or in one .npz file")
      .in_short("cifar10, cifar100, or data in --data");
  tasuki::program::add_array_file_flags(program.flags, program.arrays);
  program.flags
      .add("image-size", program.image_side, {8, 1024}, "N",
           "height and width in pixels to which a folder's images are scaled")
      .in_short("side length of a folder's images");
  program.flags.alias("lr", {"learnrate"});  // ChainerMN's name
  program.recipe = [&] {
    const auto found = recipes.find(arch);
    return found != recipes.end() ? found->second : of_small_convnets;
  };
  program.create_model = [&](const tasuki::DatasetHeader& data) {
    check_images(data.field("x").shape);
    return tasuki::create_classifier(
        tasuki::create_model(arch, {data.field("t").classes, data.field("x").shape}));
  };
  program.banner = [&] { return tasuki::program::BannerLines{{"Model", arch}}; };
  return program.run(argc, argv);
}
