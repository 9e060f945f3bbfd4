#include "nn/connection.hpp"

#include "nn/functions/connection.hpp"

namespace tasuki {
namespace {

Conv2dOptions even(std::int64_t stride, std::int64_t pad) {
  return {.stride_h = stride, .stride_w = stride, .pad_h = pad, .pad_w = pad};
}

std::int64_t results_per_group(std::int64_t channels_out, std::int64_t groups) {
  TASUKI_CHECK(groups >= 1 && channels_out % groups == 0,
               "{} channels of a result cannot be split into {} groups", channels_out, groups);
  return channels_out / groups;
}

}  // namespace

Linear::Linear(std::optional<std::int64_t> n_in, std::int64_t n_out, bool bias, Initializer weights,
               bool relu)
    : w_(n_in ? add_parameter("W", {n_out, *n_in}, std::move(weights))
              : add_unshaped_parameter("W", {n_out, 0}, std::move(weights))),
      b_(bias ? &add_parameter("b", {n_out}, initializers::zero()) : nullptr),
      relu_(relu) {}

Variable Linear::forward(const Variable& x) {
  take_shape(x);
  return functions::linear(x, w_, b_ != nullptr ? *b_ : Variable(), relu_);
}

Variable Linear::added_to(const Variable& added, const Variable& x) {
  TASUKI_CHECK(!relu_, "a layer with ReLU cannot add its result to another");
  take_shape(x);
  return functions::add_linear(added, x, w_, b_ != nullptr ? *b_ : Variable());
}

Variable Linear::gelu(const Variable& x, bool approximate) {
  TASUKI_CHECK(!relu_, "a layer with ReLU has no GELU");
  take_shape(x);
  return functions::linear_gelu(x, w_, b_ != nullptr ? *b_ : Variable(), approximate);
}

void Linear::take_shape(const Variable& x) {
  if (!w_.has_shape()) w_.set_shape({w_.shape()[0], x.shape().count_per_item()});
}

Conv2d::Conv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out,
               std::int64_t kernel, std::int64_t stride, std::int64_t pad, bool bias,
               Initializer weights, bool relu)
    : Conv2d(channels_in, channels_out, kernel, kernel,
             {bias, std::move(weights), even(stride, pad), relu}) {}

Conv2d::Conv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out,
               std::int64_t kernel_h, std::int64_t kernel_w, const Settings& settings)
    : options_(settings.options),
      w_(channels_in
             ? add_parameter("W",
                             {channels_out, channels_per_group(*channels_in), kernel_h, kernel_w},
                             settings.weights)
             : add_unshaped_parameter("W", {channels_out, 0, kernel_h, kernel_w},
                                      settings.weights)),
      b_(settings.bias ? &add_parameter("b", {channels_out}, initializers::zero()) : nullptr),
      relu_(settings.relu) {
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
  return functions::conv2d(x, w_, b_ != nullptr ? *b_ : Variable(), options_, relu_);
}

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
                   {*channels_in, results_per_group(channels_out, settings.options.groups),
                    kernel_h, kernel_w},
                   settings.weights)
             : add_unshaped_parameter("W",
                                      {0, results_per_group(channels_out, settings.options.groups),
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
  return functions::deconv2d(x, w_, b_ != nullptr ? *b_ : Variable(), options_, size_);
}

MlpConv2d::MlpConv2d(std::int64_t channels_in, const std::vector<std::int64_t>& channels_out,
                     std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                     const Initializer& weights, bool last_relu) {
  TASUKI_CHECK(!channels_out.empty(), "an MlpConv2d needs at least one convolution");
  for (const std::int64_t channels : channels_out) {
    const bool is_first = convolutions_.empty();
    const bool is_last = convolutions_.size() + 1 == channels_out.size();
    convolutions_.push_back(std::make_unique<Conv2d>(
        channels_in, channels, is_first ? kernel : 1, is_first ? stride : 1, is_first ? pad : 0,
        /*bias=*/true, weights, /*relu=*/!is_last || last_relu));
    add(fmt::format("{}", convolutions_.size() - 1), *convolutions_.back());
    channels_in = channels;
  }
}

Variable MlpConv2d::forward(const Variable& x) {
  Variable h = x;
  for (const auto& convolution : convolutions_) h = (*convolution)(h);
  return h;
}

EmbedID::EmbedID(std::int64_t in_size, std::int64_t out_size, Initializer weights,
                 std::optional<std::int64_t> ignore_label)
    : w_(add_parameter("W", {in_size, out_size}, std::move(weights))),
      ignore_label_(ignore_label) {}

Variable EmbedID::forward(const Variable& ids) {
  return functions::embed_id(ids.value(), w_, ignore_label_);
}

}  // namespace tasuki
