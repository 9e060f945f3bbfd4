// Stacks of 3x3 convolutions with max pooling between them (Simonyan and Zisserman, arXiv
// 1409.1556).
#pragma once

#include <cstdint>
#include <memory>

#include "models/conv_block.hpp"
#include "nn/layer.hpp"
#include "tensor/shape.hpp"

namespace tasuki {

// conv1_1, conv1_2 (64 channels), conv2_1, conv2_2 (128), conv3_1 ... conv3_3 (256), each with
// ReLU, 2x2 max pooling after each group; fc1 1024 with ReLU and dropout 0.5; fc2. The image's
// shape is channels x H x W: the size of fc1 depends on it (4096 inputs for 32 x 32). 5,941,066
// parameters for 3 x 32 x 32 and 10 classes.
std::unique_ptr<Layer> vgg_small(std::int64_t classes = 10, const Shape& image = {3, 32, 32});

// VGG-16's thirteen convolutions (block1_1 ... block5_3, as in ChainerMN's CIFAR example) with
// batch normalisation, and one fully connected layer after the mean over the remaining pixels (one
// for 32 x 32) as the head. No dropout, because batch normalisation regularises. 14,724,042
// parameters for 3 channels and 10 classes. `convolution` makes them, 3 x 3 without bias; default:
// same_convolution().
std::unique_ptr<Layer> vgg16_bn(std::int64_t classes = 10, std::int64_t channels = 3,
                                const MakeConvolution& convolution = {});

}  // namespace tasuki
