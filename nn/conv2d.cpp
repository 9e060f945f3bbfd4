#include "tasuki/nn/conv2d.hpp"

#include "tasuki/nn/functions/conv2d.hpp"

namespace tasuki {
namespace {

Conv2dOptions even(std::int64_t stride, std::int64_t pad) {
  Conv2dOptions options;
  options.stride_h = options.stride_w = stride;
  options.pad_h = options.pad_w = pad;
  return options;
}

}  // namespace

Conv2d::Conv2d(std::int64_t channels_in, std::int64_t channels_out, std::int64_t kernel,
               std::int64_t stride, std::int64_t pad, bool bias, Initializer weights)
    : Conv2d(channels_in, channels_out, kernel, kernel,
             {bias, std::move(weights), even(stride, pad)}) {}

Conv2d::Conv2d(std::int64_t channels_in, std::int64_t channels_out, std::int64_t kernel_h,
               std::int64_t kernel_w, const Settings& settings)
    : options_(settings.options),
      w_(add_parameter("W",
                       {channels_out, channels_in / settings.options.groups, kernel_h, kernel_w},
                       settings.weights)),
      b_(settings.bias ? &add_parameter("b", {channels_out}, initializers::zero()) : nullptr) {
  TASUKI_CHECK(channels_in % options_.groups == 0 && channels_out % options_.groups == 0,
               "{} to {} channels cannot be split into {} groups", channels_in, channels_out,
               options_.groups);
}

Variable Conv2d::forward(const Variable& x) {
  return conv2d(x, w_, b_ != nullptr ? *b_ : Variable(), options_);
}

}  // namespace tasuki
