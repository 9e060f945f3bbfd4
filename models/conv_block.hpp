// Building blocks of convolutional networks for images.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "nn/connection.hpp"
#include "nn/normalization.hpp"

namespace tasuki {

// A square convolution without bias (the normalisation after it would remove it) that keeps the
// size of images except for `stride`; weights are He normal.
std::unique_ptr<Conv2d> same_convolution(std::int64_t channels_in, std::int64_t channels_out,
                                         std::int64_t kernel, std::int64_t stride = 1);
// Batch normalisation with ReLU in the same pass.
std::unique_ptr<BatchNorm> batch_norm_relu(std::int64_t channels);

// Makes a convolution with these channels, such as one whose channels are divided among ranks.
using MakeConvolution =
    std::function<std::unique_ptr<Layer>(std::int64_t channels_in, std::int64_t channels_out)>;
// conv (3 x 3), bn, ReLU: Chainer's Block, with its keys "conv/W", "bn/gamma", "bn/beta". The
// convolution is same_convolution() by default.
std::unique_ptr<Layer> conv_block(std::int64_t channels_in, std::int64_t channels_out,
                                  const MakeConvolution& convolution = {});

}  // namespace tasuki
