// A convolution followed by 1 x 1 convolutions: "mlpconv" of Lin et al., "Network in network"
// (arXiv 1312.4400).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nn/conv2d.hpp"

namespace tasuki {

// Chainer's MLPConvolution2D, with its keys "0/W", "0/b", "1/W", ...: ReLU between the convolutions
// and, unlike in the paper, none after the last.
class MlpConv2d : public Layer {
 public:
  // `channels_out`: of each convolution; the first has this kernel, stride and padding.
  MlpConv2d(std::int64_t channels_in, const std::vector<std::int64_t>& channels_out,
            std::int64_t kernel, std::int64_t stride = 1, std::int64_t pad = 0,
            const Initializer& weights = initializers::lecun_normal());

  Variable forward(const Variable& x) override;

 private:
  std::vector<std::unique_ptr<Conv2d>> convolutions_;
};

}  // namespace tasuki
