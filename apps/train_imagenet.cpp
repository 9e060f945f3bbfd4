// Trains a large convolutional network on folders or lists of images that each rank reads from
// disk, data-parallel over MPI: ChainerMN's ImageNet example.
//
//   build/apps/tasuki-run -np 4 build/apps/train_imagenet train.txt val.txt --root images

#include <algorithm>
#include <map>

#include "apps/imagenet/mean_image.hpp"
#include "core/named_file.hpp"
#include "models/catalog.hpp"
#include "models/googlenet_bn.hpp"
#include "nn/classifier.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/building_blocks.hpp"
#include "nn/functions/loss.hpp"
#include "program/training_program.hpp"

namespace {

using namespace tasuki;
namespace F = tasuki::functions;
using program::Recipe;
namespace fs = std::filesystem;

// ChainerMN's defaults.
const Recipe chainers = {{"batchsize", "32"}, {"epoch", "10"}, {"lr", "0.01"}};
// Goyal et al., arXiv 1706.02677, without warm-up.
const Recipe of_resnets = {{"batchsize", "32"},
                           {"epoch", "90"},
                           {"lr", "0.1"},
                           {"lr-scaling", "linear"},
                           {"weight-decay", "0.0001"},
                           {"lr-schedule", "steps"},
                           {"lr-drops", "30,60,80"}};
// torchvision's, of its training script.
const Recipe of_torchvision = {{"batchsize", "32"},      {"epoch", "90"},
                               {"lr", "0.01"},           {"weight-decay", "0.0001"},
                               {"lr-schedule", "steps"}, {"lr-drops", "30,60"}};
const std::map<std::string, Recipe> recipes = {{"nin", chainers},
                                               {"alex", chainers},
                                               {"googlenetbn", chainers},
                                               {"resnet18", of_resnets},
                                               {"resnet50", of_resnets},
                                               {"tv_resnet18", of_resnets},
                                               {"tv_resnet50", of_resnets},
                                               {"tv_vgg16_bn", of_torchvision},
                                               {"tv_alexnet", of_torchvision}};

struct Flags {
  std::string arch = "nin";
  std::string train, test, root = ".";
  std::optional<std::string> mean;
  std::optional<std::int64_t> side, shorter;
  bool is_short = false;
};

std::int64_t side_of(const Flags& flags) {
  return flags.side.value_or(find_model(flags.arch).insize);
}

std::int64_t shorter_side_of(const Flags& flags) {
  return flags.shorter.value_or(usual_shorter_side(side_of(flags)));
}

// `train_imagenet TRAIN VAL --flags`, as in Chainer: takes the words before the first flag.
std::vector<std::string> with_named_words(int count, char** words) {
  std::vector<std::string> all(words, words + count);
  std::size_t at = 1;
  for (const char* const flag : {"--train=", "--val="}) {
    if (at >= all.size() || all[at].starts_with('-')) break;
    all[at++].insert(0, flag);
  }
  return all;
}

void check_flags(const Flags& flags, const program::TrainingSettings& settings) {
  if (flags.train.empty() != flags.test.empty())
    fail_everywhere(ErrorKind::usage, "--train and --val: give both or none, found {} alone",
                    flags.train.empty() ? "--val" : "--train");
  if (!flags.train.empty() && settings.data)
    fail_everywhere(ErrorKind::usage, "--data and --train: give the images once");
  if (shorter_side_of(flags) < side_of(flags))
    fail_everywhere(ErrorKind::usage, "--resize: expected at least --image-size {}, found {}",
                    side_of(flags), shorter_side_of(flags));
}

ImageLists list_images(const Flags& flags, const program::TrainingSettings& settings) {
  if (flags.train.empty()) {
    const fs::path folder = find_data_folder("images", settings.data.value_or(""));
    return list_class_folders(split_folder(folder, DataSplit::train),
                              split_folder(folder, DataSplit::test));
  }
  const bool is_folder = fs::is_directory(status_of(flags.train));
  if (is_folder != fs::is_directory(status_of(flags.test)))
    fail(ErrorKind::usage,
         "--train and --val: expected two folders or two lists, found one folder");
  return is_folder ? list_class_folders(flags.train, flags.test)
                   : read_image_lists(flags.train, flags.test, flags.root);
}

StreamedImages open_images(const Flags& flags, const program::TrainingSettings& settings,
                           Communicator& communicator) {
  ImageLists lists = share_image_lists(communicator, [&] { return list_images(flags, settings); });
  ImageStreamSettings reading{
      .side = side_of(flags), .exif = settings.exif, .shorter = shorter_side_of(flags)};
  if (flags.mean) reading.scale.mean_image = read_mean_image(*flags.mean);
  StreamedImages streams;
  streams.place = flags.train.empty() ? lists.train.root().string() : flags.train;
  streams.class_names = lists.class_names;
  streams.test = std::make_shared<ImageStream>(std::move(lists.test), lists.classes, reading);
  reading.is_random = true;
  reading.seed = static_cast<std::uint64_t>(settings.seed);
  streams.train = std::make_shared<ImageStream>(std::move(lists.train), lists.classes, reading);
  return streams;
}

// The losses of all three classifiers, in evaluations, too, as in Chainer.
LossFunction googlenet_loss(Classifier& model) {
  return [&model](const Batch& batch, Observation& report) {
    const Device device = model.device();
    const Tensor t = batch["t"].to(device);
    auto& net = dynamic_cast<GoogLeNetBn&>(model.predictor());
    const auto [main, first, second] = net.all_scores(Variable(batch["x"].to(device)));
    const auto [loss3, right] = F::loss_and_accuracy(main, t);
    report.add_sum("accuracy", right.correct, right.counted);
    const Variable loss1 = F::softmax_cross_entropy(first, t),
                   loss2 = F::softmax_cross_entropy(second, t);
    for (const auto& [name, loss] : {std::pair("loss1", loss1), {"loss2", loss2}, {"loss3", loss3}})
      if (batch.size() > 0) report.add_mean(name, loss.value(), batch.size());
    return F::add(loss3, F::mapped("scale", Map::affine, F::add(loss1, loss2),
                                   GoogLeNetBn::auxiliary_weight, 0));
  };
}

TrainingModel create_network(const std::string& arch, const DatasetHeader& data) {
  auto model = std::make_unique<Classifier>(
      create_model(arch, {data.field("t").classes, data.field("x").shape}));
  LossFunction loss = arch == "googlenetbn" ? googlenet_loss(*model) : classification_loss(*model);
  return {std::move(model), std::move(loss)};
}

void add_flags(TrainingProgram& program, Flags& flags) {
  std::string models = "the network, which also sets the defaults of the optimizer's flags.";
  std::vector<std::string> names;
  for (const auto& [name, recipe] : recipes) {
    names.push_back(name);
    models += fmt::format(" `{}`: {}.", name, find_model(name).summary);
  }
  auto& options = program.flags;
  auto& settings = program.settings;
  options.add("arch,a", flags.arch, names, "NAME", models).in_short("the network");
  options.add(
      "train", flags.train, "PATH",
      "images to train on, instead of --data: a folder with a subfolder for each class, or a "
      "list of lines `name label`. Also the first word of the command line");
  options.add("val", flags.test, "PATH",
              "images to evaluate on, in the same form. Also the second word");
  options.add("root,R", flags.root, "DIR", "folder to which names in lists are relative")
      .in_short("folder to which names are relative");
  options
      .add("image-size", flags.side, "auto", {8, 1024}, "N",
           "height and width in pixels of the crops; auto: the size for which the network was "
           "designed")
      .in_short("height and width of the crops");
  options
      .add("resize", flags.shorter, "auto", {8, 2048}, "N",
           "length in pixels to which the shorter side is scaled for evaluation, before the "
           "middle is cropped; auto: 256 for crops of 224 and 227")
      .in_short("shorter side in evaluations");
  options
      .add("mean,m", flags.mean, "none", "FILE",
           "mean image (3 x H x W, .npy) of Chainer's compute_mean.py to subtract; none: "
           "subtract ImageNet's mean colour and divide by its deviation")
      .in_short("mean image to subtract");
  options.add(
      "val-batchsize", settings.test_batchsize, "auto", program::batch_sizes, "N",
      "examples per rank (with --reproducible: of all ranks) in evaluations; auto: as in training");
  options.add("test", flags.is_short, "a trial: reports every 10 iterations, and ends after 20")
      .in_short("a trial of 20 iterations");
  // ChainerMN's names for flags that all programs have.
  options.alias("batchsize", {"B"});
  options.alias("epoch", {"E"});
  options.alias("init", {"initmodel"});
  options.alias("loader-threads", {"loaderjob", "j"});
}

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program(
      "train_imagenet",
      "trains a convolutional network on folders or lists of images, which each rank reads from "
      "disk",
      "tasuki-run -np 4 train_imagenet train.txt val.txt --arch resnet50 --root "
      "/data");
  program.settings.optimizer = "momentum_sgd";
  program.settings.reference_batch = 256;
  program.dataset = "images";
  Flags flags;
  add_flags(program, flags);
  program.recipe = [&] {
    Recipe recipe = recipes.at(flags.arch);
    if (flags.is_short)
      recipe.insert(recipe.end(), {{"log-every", "10"}, {"max-iterations", "20"}});
    return recipe;
  };
  program.check_flags = [&] { check_flags(flags, program.settings); };
  program.stream_images = [&](Communicator& communicator) {
    return open_images(flags, program.settings, communicator);
  };
  program.create_model = [&](const DatasetHeader& data) {
    return create_network(flags.arch, data);
  };
  program.banner = [&] {
    return program::BannerLines{{"Model", flags.arch},
                                {"Crops", fmt::format("{0} x {0} pixels", side_of(flags))}};
  };
  std::vector<std::string> words = with_named_words(argc, argv);
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return program.run(argc, pointers.data());
}
