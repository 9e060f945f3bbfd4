// Layer of transposed convolution.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "nn/layer.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// Chainer's Deconvolution2D: parameters W (in x out/groups x KH x KW, LeCun normal) and b (out,
// zeros) unless `bias` is false. Without channels_in (std::nullopt, Chainer's None), W gets its
// shape from the first input.
class Deconv2d : public Layer {
 public:
  struct Settings {
    bool bias = true;
    Initializer weights = initializers::lecun_normal();
    Conv2dOptions options;  // dilation, groups, and uneven strides or padding
    // Height and width of results (Chainer's outsize); default: see functions/deconv2d.hpp.
    std::optional<std::pair<std::int64_t, std::int64_t>> size;
  };
  // A square kernel, with the same stride and padding along both axes.
  Deconv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out, std::int64_t kernel,
           std::int64_t stride = 1, std::int64_t pad = 0, bool bias = true,
           Initializer weights = initializers::lecun_normal());
  Deconv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out,
           std::int64_t kernel_h, std::int64_t kernel_w, const Settings& settings);

  // N x in x H x W to N x out x H' x W'.
  Variable forward(const Variable& x) override;

 private:
  Conv2dOptions options_;
  std::optional<std::pair<std::int64_t, std::int64_t>> size_;
  Parameter& w_;
  Parameter* b_;
};

}  // namespace tasuki
