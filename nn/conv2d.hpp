// Convolutional layer.
#pragma once

#include <optional>

#include "nn/layer.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// Parameters W (out x in/groups x KH x KW, LeCun normal) and b (out, zeros) unless `bias` is false.
// Without channels_in (std::nullopt, Chainer's None), W gets its shape from the first input.
class Conv2d : public Layer {
 public:
  struct Settings {
    bool bias = true;
    Initializer weights = initializers::lecun_normal();
    Conv2dOptions options;  // dilation, groups, and uneven strides or padding
  };
  // A square kernel, with the same stride and padding along both axes.
  Conv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out, std::int64_t kernel,
         std::int64_t stride = 1, std::int64_t pad = 0, bool bias = true,
         Initializer weights = initializers::lecun_normal());
  Conv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out, std::int64_t kernel_h,
         std::int64_t kernel_w, const Settings& settings);

  // N x in x H x W to N x out x H' x W' (see functions/conv2d.hpp).
  Variable forward(const Variable& x) override;

 private:
  std::int64_t channels_per_group(std::int64_t channels_in) const;

  Conv2dOptions options_;
  Parameter& w_;
  Parameter* b_;
};

}  // namespace tasuki
