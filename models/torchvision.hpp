// Networks in the forms of PyTorch's torchvision, which differ from Chainer's: with the names and
// weights of torchvision's files (saving/name_map.hpp), they compute what its networks compute.
//
// Paths are torchvision's, with slashes for dots: layer1/0/conv1/W, features/0/W, classifier/6/b.
// Batch normalisation adds 1e-5 to variances. Initial values are He's for convolutions and LeCun's
// for other layers.
#pragma once

#include <cstdint>
#include <memory>

#include "nn/layer.hpp"
#include "tensor/shape.hpp"

namespace tasuki {

// resnet18 and resnet50 (version 1.5: stride 2 is in a block's 3x3 convolution). The first
// convolution has no bias, and the pooling after it has padding 1.
std::unique_ptr<Layer> torchvision_resnet18(std::int64_t classes = 1000, std::int64_t channels = 3);
std::unique_ptr<Layer> torchvision_resnet50(std::int64_t classes = 1000, std::int64_t channels = 3);

// vgg16_bn: 13 convolutions with batch normalisation, the mean over a grid of 7 x 7, and three
// fully connected layers with dropout. An image (channels x H x W) of which 1/32 is no multiple of
// 7 along an axis is an error of kind config.
std::unique_ptr<Layer> torchvision_vgg16_bn(std::int64_t classes = 1000,
                                            const Shape& image = {3, 224, 224});

// alexnet, after Krizhevsky, "One weird trick for parallelizing convolutional neural networks"
// (arXiv 1404.5997): 5 convolutions without local response normalisation, the mean over a grid of 6
// x 6, and three fully connected layers with dropout. An image whose last feature map is no
// multiple of 6 is an error of kind config; 224 pixels fit.
std::unique_ptr<Layer> torchvision_alexnet(std::int64_t classes = 1000,
                                           const Shape& image = {3, 224, 224});

}  // namespace tasuki
