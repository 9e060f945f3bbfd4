#include "models/catalog.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "models/alex.hpp"
#include "models/cnn10.hpp"
#include "models/googlenet_bn.hpp"
#include "models/lenet.hpp"
#include "models/nin.hpp"
#include "models/resnet.hpp"
#include "models/torchvision.hpp"
#include "models/vgg.hpp"
#include "models/wide_resnet.hpp"

namespace tasuki {
namespace {

// Up to this size, a ResNet's first two halvings are left out; 32 pixels would otherwise shrink to
// one before the last stage.
constexpr std::int64_t largest_small_image = 64;

std::unique_ptr<Layer> create_lenet(const ModelTask& task) {
  if (task.image != Shape{1, 28, 28})
    fail_everywhere(ErrorKind::config,
                    "lenet: expected images of 1x28x28, found {}; choose another model",
                    task.image.text());
  return lenet(task.classes);
}

ResNetStem stem_for(const Shape& image) {
  const bool is_small = std::min(image[1], image[2]) <= largest_small_image;
  return is_small ? ResNetStem::cifar : ResNetStem::imagenet;
}

std::unique_ptr<Layer> create_resnet18(const ModelTask& task) {
  return resnet18(task.classes, task.image[0], stem_for(task.image));
}

std::unique_ptr<Layer> create_resnet50(const ModelTask& task) {
  return resnet50(task.classes, task.image[0], stem_for(task.image));
}

std::unique_ptr<Layer> create_googlenet_bn(const ModelTask& task) {
  if (task.image[1] != task.image[2])
    fail_everywhere(ErrorKind::config, "googlenetbn: expected square images, found {}",
                    task.image.text());
  return std::make_unique<GoogLeNetBn>(task.classes, task.image);
}

std::vector<ModelKind> built_in_kinds() {
  return {
      {"lenet", "LeNet with ReLU and average pooling, 28 x 28 pixels", create_lenet},
      {"cnn10", "9 convolutions with batch normalisation, 64 to 256 channels",
       [](const ModelTask& task) { return cnn10(task.classes, task.image[0]); }},
      {"vgg_small",
       "7 convolutions, 64 to 256 channels; fully connected layers of 1024, with dropout, and of "
       "the classes",
       [](const ModelTask& task) { return vgg_small(task.classes, task.image); }},
      {"vgg16_bn",
       "VGG-16's 13 convolutions with batch normalisation; mean over the pixels left, one fully "
       "connected layer of 512 to the classes",
       [](const ModelTask& task) { return vgg16_bn(task.classes, task.image[0]); }},
      {"resnet20", "residual network for small images, 20 layers",
       [](const ModelTask& task) { return small_resnet(20, task.classes, task.image[0]); }},
      {"resnet18", "residual network, 18 layers; its ImageNet form above 64 pixels",
       create_resnet18, 224},
      {"resnet50", "residual network, 50 layers; its ImageNet form above 64 pixels",
       create_resnet50, 224},
      {"wrn_28_10", "wide residual network, 28 layers, 10 times as wide",
       [](const ModelTask& task) { return wide_resnet(28, 10, task.classes, task.image[0]); }},
      {"alex",
       "AlexNet, 5 convolutions with local response normalisation, 3 fully connected layers",
       [](const ModelTask& task) { return alex(task.classes, task.image); }, 227, 63},
      {"nin", "network in network, 12 convolutions, 8 of them 1 x 1",
       [](const ModelTask& task) { return nin(task.classes, task.image[0]); }, 227, 63},
      {"googlenetbn", "GoogLeNet with batch normalisation, 10 inception modules",
       create_googlenet_bn, 224, 64},
      {"tv_resnet18", "torchvision's resnet18",
       [](const ModelTask& task) { return torchvision_resnet18(task.classes, task.image[0]); }, 224,
       64, true},
      {"tv_resnet50", "torchvision's resnet50",
       [](const ModelTask& task) { return torchvision_resnet50(task.classes, task.image[0]); }, 224,
       64, true},
      {"tv_vgg16_bn", "torchvision's vgg16_bn",
       [](const ModelTask& task) { return torchvision_vgg16_bn(task.classes, task.image); }, 224,
       224, true},
      {"tv_alexnet", "torchvision's alexnet",
       [](const ModelTask& task) { return torchvision_alexnet(task.classes, task.image); }, 224,
       223, true},
  };
}

// A local static, because user programs may register kinds before main.
std::vector<ModelKind>& kinds() {
  static std::vector<ModelKind> instance = built_in_kinds();
  return instance;
}

}  // namespace

void register_model(ModelKind kind) {
  for (const auto& known : kinds())
    if (known.name == kind.name)
      fail(ErrorKind::internal, "a model named {} is registered already", kind.name);
  kinds().push_back(std::move(kind));
}

const std::vector<ModelKind>& model_kinds() {
  return kinds();
}

const ModelKind& find_model(std::string_view name) {
  const auto kind = std::find_if(kinds().begin(), kinds().end(),
                                 [&](const ModelKind& known) { return known.name == name; });
  if (kind == kinds().end()) {
    std::vector<std::string> names;
    for (const auto& known : kinds()) names.push_back(known.name);
    fail_everywhere(ErrorKind::usage, "unknown model '{}'; expected one of {}", name,
                    join(names, ", "));
  }
  return *kind;
}

std::unique_ptr<Layer> create_model(std::string_view name, const ModelTask& task) {
  const ModelKind& kind = find_model(name);
  if (task.image.rank() != 3 || task.classes < 1)
    fail_everywhere(
        ErrorKind::config,
        "{}: expected images of channels x H x W and at least one class, found {} and {}", name,
        task.image.text(), task.classes);
  if (std::min(task.image[1], task.image[2]) < kind.smallest)
    fail_everywhere(ErrorKind::config, "{}: expected images of at least {} x {} pixels, found {}",
                    name, kind.smallest, kind.smallest, task.image.text());
  return kind.create(task);
}

}  // namespace tasuki
