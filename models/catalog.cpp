#include "tasuki/models/catalog.hpp"

#include <algorithm>
#include <utility>

#include "tasuki/core/error.hpp"
#include "tasuki/models/cnn10.hpp"
#include "tasuki/models/lenet.hpp"
#include "tasuki/models/resnet.hpp"
#include "tasuki/models/vgg.hpp"
#include "tasuki/models/wide_resnet.hpp"

namespace tasuki {
namespace {

// Images up to this size enter ResNet-50 without its first two halvings; 32 pixels would otherwise
// shrink to one before the last stage.
constexpr std::int64_t largest_small_image = 64;

std::unique_ptr<Layer> create_lenet(const ModelTask& task) {
  if (task.image != Shape{1, 28, 28})
    fail_everywhere(ErrorKind::config,
                    "lenet: expected images of 1x28x28, found {}; choose another model",
                    task.image.text());
  return lenet(task.classes);
}

std::unique_ptr<Layer> create_resnet50(const ModelTask& task) {
  const bool is_small = std::min(task.image[1], task.image[2]) <= largest_small_image;
  return resnet50(task.classes, task.image[0], is_small ? ResNetStem::cifar : ResNetStem::imagenet);
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
      {"resnet50", "residual network, 50 layers; its ImageNet form above 64 pixels",
       create_resnet50},
      {"wrn_28_10", "wide residual network, 28 layers, 10 times as wide",
       [](const ModelTask& task) { return wide_resnet(28, 10, task.classes, task.image[0]); }},
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

std::unique_ptr<Layer> create_model(std::string_view name, const ModelTask& task) {
  const auto kind = std::find_if(kinds().begin(), kinds().end(),
                                 [&](const ModelKind& known) { return known.name == name; });
  if (kind == kinds().end()) {
    std::vector<std::string> names;
    for (const auto& known : kinds()) names.push_back(known.name);
    fail_everywhere(ErrorKind::usage, "unknown model '{}'; expected one of {}", name,
                    fmt::join(names, ", "));
  }
  if (task.image.rank() != 3 || task.classes < 1)
    fail_everywhere(
        ErrorKind::config,
        "{}: expected images of channels x H x W and at least one class, found {} and {}", name,
        task.image.text(), task.classes);
  return kind->create(task);
}

}  // namespace tasuki
