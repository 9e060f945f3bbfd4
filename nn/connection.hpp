// Layers with weights. They compute what nn/functions/connection.hpp describes.
//
// A size that is std::nullopt (Chainer's None) is taken from the first input.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nn/layer.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// Fully connected. Parameters W (n_out x n_in, LeCun normal) and b (n_out, zeros) unless `bias` is
// false. With `relu` results are max(., 0), without a separate pass.
class Linear : public Layer {
 public:
  Linear(std::optional<std::int64_t> n_in, std::int64_t n_out, bool bias = true,
         Initializer weights = initializers::lecun_normal(), bool relu = false);

  // N x n_in (more axes are flattened) to N x n_out.
  Variable forward(const Variable& x) override;
  // added + forward(x), for layers without ReLU.
  Variable added_to(const Variable& added, const Variable& x);
  // functions::gelu(forward(x), approximate), for layers without ReLU.
  Variable gelu(const Variable& x, bool approximate = false);

 private:
  void take_shape(const Variable& x);

  Parameter& w_;
  Parameter* b_;
  bool relu_;
};

// Convolution of images. Parameters W (out x in/groups x KH x KW, LeCun normal) and b (out, zeros)
// unless `bias` is false. With `relu` results are max(., 0).
class Conv2d : public Layer {
 public:
  struct Settings {
    bool bias = true;
    Initializer weights = initializers::lecun_normal();
    Conv2dOptions options;  // dilation, groups, and uneven strides or padding
    bool relu = false;
  };
  // A square kernel, with the same stride and padding along both axes.
  Conv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out, std::int64_t kernel,
         std::int64_t stride = 1, std::int64_t pad = 0, bool bias = true,
         Initializer weights = initializers::lecun_normal(), bool relu = false);
  Conv2d(std::optional<std::int64_t> channels_in, std::int64_t channels_out, std::int64_t kernel_h,
         std::int64_t kernel_w, const Settings& settings);

  // N x in x H x W to N x out x H' x W'.
  Variable forward(const Variable& x) override;

 private:
  std::int64_t channels_per_group(std::int64_t channels_in) const;

  Conv2dOptions options_;
  Parameter& w_;
  Parameter* b_;
  bool relu_;
};

// Transposed convolution, Chainer's Deconvolution2D. Parameters W (in x out/groups x KH x KW, LeCun
// normal) and b (out, zeros) unless `bias` is false.
class Deconv2d : public Layer {
 public:
  struct Settings {
    bool bias = true;
    Initializer weights = initializers::lecun_normal();
    Conv2dOptions options;  // dilation, groups, and uneven strides or padding
    // Height and width of results (Chainer's outsize); default: see functions::deconv2d.
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

// A convolution followed by 1 x 1 convolutions, "mlpconv" of Lin et al., "Network in network"
// (arXiv 1312.4400). Chainer's MLPConvolution2D, with its keys "0/W", "0/b", "1/W", ...: ReLU
// between the convolutions and, unlike in the paper, none after the last, unless `last_relu`.
class MlpConv2d : public Layer {
 public:
  // `channels_out`: of each convolution; the first has this kernel, stride and padding.
  MlpConv2d(std::int64_t channels_in, const std::vector<std::int64_t>& channels_out,
            std::int64_t kernel, std::int64_t stride = 1, std::int64_t pad = 0,
            const Initializer& weights = initializers::lecun_normal(), bool last_relu = false);

  Variable forward(const Variable& x) override;

 private:
  std::vector<std::unique_ptr<Conv2d>> convolutions_;
};

// Embeddings of ids (Chainer's EmbedID). Parameter W (in_size x out_size): the vectors of the ids
// 0 .. in_size - 1. The vectors of `ignore_label` are zeros.
class EmbedID : public Layer {
 public:
  EmbedID(std::int64_t in_size, std::int64_t out_size,
          Initializer weights = initializers::normal(1),
          std::optional<std::int64_t> ignore_label = std::nullopt);

  // ids (int32 or int64) of any shape to the same shape x out_size.
  Variable forward(const Variable& ids) override;
  // in_size x out_size, for a layer that shares them.
  const Parameter& weights() const { return w_; }

 private:
  Parameter& w_;
  std::optional<std::int64_t> ignore_label_;
};

}  // namespace tasuki
