#include "nn/deconv2d.hpp"

#include "nn/functions/deconv2d.hpp"

namespace tasuki {
namespace {

Conv2dOptions even(std::int64_t stride, std::int64_t pad) {
  return {.stride_h = stride, .stride_w = stride, .pad_h = pad, .pad_w = pad};
}

std::int64_t channels_per_group(std::int64_t channels_out, std::int64_t groups) {
  TASUKI_CHECK(groups >= 1 && channels_out % groups == 0,
               "{} channels of a result cannot be split into {} groups", channels_out, groups);
  return channels_out / groups;
}

}  // namespace

Deconv2d::Deconv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out,
                   std::int64_t kernel, std::int64_t stride, std::int64_t pad, bool bias,
                   Initializer weights)
    : Deconv2d(channels_in, channels_out, kernel, kernel,
               {bias, std::move(weights), even(stride, pad), {}}) {}

Deconv2d::Deconv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out,
                   std::int64_t kernel_h, std::int64_t kernel_w, const Settings& settings)
    : options_(settings.options),
      size_(settings.size),
      w_(channels_in
             ? add_parameter(
                   "W",
                   {*channels_in, channels_per_group(channels_out, settings.options.groups),
                    kernel_h, kernel_w},
                   settings.weights)
             : add_unshaped_parameter("W",
                                      {0, channels_per_group(channels_out, settings.options.groups),
                                       kernel_h, kernel_w},
                                      settings.weights)),
      b_(settings.bias ? &add_parameter("b", {channels_out}, initializers::zero()) : nullptr) {}

Variable Deconv2d::forward(const Variable& x) {
  if (!w_.has_shape()) {
    TASUKI_CHECK(x.shape().rank() == 4, "a deconvolution of images takes N x C x H x W, not {}",
                 x.shape().text());
    Shape shape = w_.shape();
    shape[0] = x.shape()[1];
    w_.set_shape(shape);
  }
  return deconv2d(x, w_, b_ != nullptr ? *b_ : Variable(), options_, size_);
}

}  // namespace tasuki
