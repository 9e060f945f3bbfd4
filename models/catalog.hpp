// Image models by name, for `--arch`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nn/layer.hpp"
#include "tensor/shape.hpp"

namespace tasuki {

// The data that a model is made for.
struct ModelTask {
  std::int64_t classes = 10;
  Shape image{3, 32, 32};  // channels x H x W
};

struct ModelKind {
  std::string name;
  std::string summary;  // a description for --help
  std::function<std::unique_ptr<Layer>(const ModelTask&)> create;
  std::int64_t insize = 32;   // side of the images that it was designed for
  std::int64_t smallest = 1;  // side of the smallest images that it takes
  // Its published weights are for images from which ImageNet's mean colour was subtracted, and
  // which were divided by its deviation.
  bool is_published = false;
};

// Adds a kind; a user program may do so before it creates one. A name that exists is an error.
void register_model(ModelKind kind);
// All kinds, built-in ones first: lenet, cnn10, vgg_small, vgg16_bn, resnet20, resnet18, resnet50,
// wrn_28_10; for large images alex, nin, googlenetbn; and torchvision's tv_resnet18, tv_resnet50,
// tv_vgg16_bn, tv_alexnet.
const std::vector<ModelKind>& model_kinds();

// The kind of this name; an unknown name is a usage error that lists the known names.
const ModelKind& find_model(std::string_view name);

// Makes a model without initialising it. An unknown name is a usage error that lists the known
// names; a task that the model cannot do (LeNet takes only 1 x 28 x 28) is an error of kind config.
std::unique_ptr<Layer> create_model(std::string_view name, const ModelTask& task = {});

}  // namespace tasuki
