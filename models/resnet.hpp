// Residual networks (He et al., "Deep residual learning for image recognition", arXiv 1512.03385).
#pragma once

#include <cstdint>
#include <memory>

#include "nn/layer.hpp"

namespace tasuki {

// Section 4.2's network for small images: conv1, bn1 (16 channels), res2 ... res4 of (depth - 2) /
// 6 blocks of two 3x3 convolutions each with 16, 32 and 64 channels, the mean over all pixels, fc.
// If the size changes, the shortcut is a 1x1 convolution with normalisation (option B). Depth 20:
// 272,474 parameters for 3 channels and 10 classes. A depth that is not 6 n + 2 is an error.
std::unique_ptr<Layer> small_resnet(int depth, std::int64_t classes = 10,
                                    std::int64_t channels = 3);

// The first layers of ResNet-18 and ResNet-50.
enum class ResNetStem {
  imagenet,  // 7x7 convolution with stride 2, 3x3 max pooling with stride 2: for about 224 pixels
  cifar,     // 3x3 convolution, no pooling: for about 32 pixels
};

// Table 1's 18 layers: blocks of two 3x3 convolutions. 11,689,576 parameters for 3 channels, 1000
// classes and ImageNet's stem.
std::unique_ptr<Layer> resnet18(std::int64_t classes = 1000, std::int64_t channels = 3,
                                ResNetStem stem = ResNetStem::imagenet);

// Table 1's 50 layers. With ImageNet's stem it is ResNet50 of ChainerMN's ImageNet example, with
// its keys (conv1/W, conv1/b, bn1/gamma, res2/0/conv1/W ... res5/2/bn3/beta, fc/W): stride 2 is in
// a block's first 1x1 convolution, and the pooling has no padding but may reach over the far edge.
// 25,557,096 parameters for 3 channels, 1000 classes and ImageNet's stem.
std::unique_ptr<Layer> resnet50(std::int64_t classes = 1000, std::int64_t channels = 3,
                                ResNetStem stem = ResNetStem::imagenet);

}  // namespace tasuki
