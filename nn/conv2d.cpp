#include "nn/conv2d.hpp"

#include "nn/functions/conv2d.hpp"

namespace tasuki {
namespace {

Conv2dOptions even(std::int64_t stride, std::int64_t pad) {
  Conv2dOptions options;
  options.stride_h = options.stride_w = stride;
  options.pad_h = options.pad_w = pad;
  return options;
}

}  // namespace

Conv2d::Conv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out,
               std::int64_t kernel, std::int64_t stride, std::int64_t pad, bool bias,
               Initializer weights)
    : Conv2d(channels_in, channels_out, kernel, kernel,
             {bias, std::move(weights), even(stride, pad)}) {}

Conv2d::Conv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out,
               std::int64_t kernel_h, std::int64_t kernel_w, const Settings& settings)
    : options_(settings.options),
      w_(channels_in
             ? add_parameter("W",
                             {channels_out, channels_per_group(*channels_in), kernel_h, kernel_w},
                             settings.weights)
             : add_unshaped_parameter("W", {channels_out, 0, kernel_h, kernel_w},
                                      settings.weights)),
      b_(settings.bias ? &add_parameter("b", {channels_out}, initializers::zero()) : nullptr) {
  TASUKI_CHECK(channels_out % options_.groups == 0,
               "{} channels of a result cannot be split into {} groups", channels_out,
               options_.groups);
}

std::int64_t Conv2d::channels_per_group(std::int64_t channels_in) const {
  TASUKI_CHECK(channels_in % options_.groups == 0, "{} channels cannot be split into {} groups",
               channels_in, options_.groups);
  return channels_in / options_.groups;
}

Variable Conv2d::forward(const Variable& x) {
  if (!w_.has_shape()) {
    TASUKI_CHECK(x.shape().rank() == 4, "a convolution of images takes N x C x H x W, not {}",
                 x.shape().text());
    Shape shape = w_.shape();
    shape[1] = channels_per_group(x.shape()[1]);
    w_.set_shape(shape);
  }
  return conv2d(x, w_, b_ != nullptr ? *b_ : Variable(), options_);
}

}  // namespace tasuki
