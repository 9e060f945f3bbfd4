#include "models/torchvision.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/images.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"
#include "nn/sequential.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

std::unique_ptr<BatchNorm> batch_norm(std::int64_t channels, bool relu) {
  BatchNorm::Settings settings;
  settings.eps = 1e-5F;
  settings.relu = relu;
  return std::make_unique<BatchNorm>(channels, settings);
}

std::unique_ptr<Conv2d> convolution(std::int64_t from, std::int64_t to, std::int64_t kernel,
                                    std::int64_t stride, std::int64_t pad, bool bias,
                                    bool relu = false) {
  return std::make_unique<Conv2d>(from, to, kernel, stride, pad, bias, initializers::he_normal(),
                                  relu);
}

Variable pool(const Variable& x, std::int64_t window, std::int64_t stride, std::int64_t pad) {
  return F::max_pooling_2d(x, window, stride, pad, /*cover_all=*/false);
}

// A Sequential whose layers have their numbers as names. Functions count as well.
class Numbered {
 public:
  Numbered& layer(std::unique_ptr<Layer> layer) {
    net_->append(std::to_string(count_++), std::move(layer));
    return *this;
  }
  Numbered& function(Sequential::Link function) {
    net_->append(std::move(function));
    ++count_;
    return *this;
  }
  Numbered& end_block() {
    net_->end_block();
    return *this;
  }
  // ReLU is in the layer before.
  Numbered& relu_is_done() {
    ++count_;
    return *this;
  }
  std::unique_ptr<Sequential> take() { return std::move(net_); }

 private:
  std::unique_ptr<Sequential> net_ = std::make_unique<Sequential>();
  int count_ = 0;
};

// --- residual networks ---

// relu(convolutions(x) + downsample(x)): conv1, bn1, ReLU, conv2, bn2, ReLU ..., the last
// normalisation without ReLU. Where stride or channels require it, downsample is a convolution "0"
// and a normalisation "1".
class Residual final : public Layer {
 public:
  struct Convolution {
    std::int64_t channels_out, kernel, stride;
  };

  Residual(std::int64_t channels_in, const std::vector<Convolution>& convolutions) {
    std::int64_t channels = channels_in, stride = 1;
    for (const Convolution& each : convolutions) {
      const std::size_t number = main_.size() / 2 + 1;
      const bool is_last = number == convolutions.size();
      own("conv", number,
          convolution(channels, each.channels_out, each.kernel, each.stride, each.kernel / 2,
                      false));
      own("bn", number, batch_norm(each.channels_out, /*relu=*/!is_last));
      channels = each.channels_out;
      stride *= each.stride;
    }
    if (stride == 1 && channels == channels_in) return;
    downsample_ = Numbered()
                      .layer(convolution(channels_in, channels, 1, stride, 0, false))
                      .layer(batch_norm(channels, /*relu=*/false))
                      .take();
    add("downsample", *downsample_);
  }

  Variable forward(const Variable& x) override {
    Variable y = x;
    for (const auto& layer : main_) y = (*layer)(y);
    return F::relu(y + (downsample_ ? (*downsample_)(x) : x));
  }

 private:
  void own(const char* name, std::size_t number, std::unique_ptr<Layer> layer) {
    add(name + std::to_string(number), *layer);
    main_.push_back(std::move(layer));
  }

  std::vector<std::unique_ptr<Layer>> main_;
  std::unique_ptr<Layer> downsample_;
};

std::vector<Residual::Convolution> basic(std::int64_t width, std::int64_t stride) {
  return {{width, 3, stride}, {width, 3, 1}};
}

std::vector<Residual::Convolution> bottleneck(std::int64_t width, std::int64_t stride) {
  return {{width, 1, 1}, {width, 3, stride}, {4 * width, 1, 1}};
}

template <class MakeConvolutions>
std::unique_ptr<Layer> resnet(const std::array<int, 4>& blocks, const MakeConvolutions& make,
                              std::int64_t classes, std::int64_t channels) {
  std::int64_t width = 64;
  auto net = std::make_unique<Sequential>();
  net->append("conv1", convolution(channels, width, 7, /*stride=*/2, /*pad=*/3, /*bias=*/false));
  net->append("bn1", batch_norm(width, /*relu=*/true));
  net->append([](const Variable& x) { return pool(x, 3, 2, 1); });
  channels = width;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage, width *= 2) {
    Numbered layer;
    for (int i = 0; i < blocks[stage]; ++i) {
      const auto convolutions = make(width, stage > 0 && i == 0 ? 2 : 1);
      layer.layer(std::make_unique<Residual>(channels, convolutions)).end_block();
      channels = convolutions.back().channels_out;
    }
    net->append("layer" + std::to_string(stage + 1), layer.take());
  }
  net->append(F::global_average_pooling_2d);
  net->append("fc", std::make_unique<Linear>(channels, classes));
  return net;
}

// --- networks with three fully connected layers ---

// The means of a grid of cells, each of so many pixels along an axis.
Sequential::Link means_of_cells(const char* network, const Shape& image, std::int64_t height,
                                std::int64_t width, std::int64_t cells) {
  if (height < cells || height != width || height % cells != 0)
    fail_everywhere(ErrorKind::config,
                    "{}: expected square images whose last feature map is a multiple of {} pixels "
                    "(224 pixels fit), found {}",
                    network, cells, image.text());
  const std::int64_t cell = height / cells;
  return [cell](const Variable& x) { return cell == 1 ? x : F::average_pooling_2d(x, cell); };
}

std::unique_ptr<Linear> linear_relu(std::int64_t from, std::int64_t to) {
  return std::make_unique<Linear>(from, to, /*bias=*/true, initializers::lecun_normal(),
                                  /*relu=*/true);
}

Variable drop(const Variable& x) {
  return F::dropout(x, 0.5F);
}

constexpr std::int64_t units = 4096;

}  // namespace

std::unique_ptr<Layer> torchvision_resnet18(std::int64_t classes, std::int64_t channels) {
  return resnet({2, 2, 2, 2}, basic, classes, channels);
}

std::unique_ptr<Layer> torchvision_resnet50(std::int64_t classes, std::int64_t channels) {
  return resnet({3, 4, 6, 3}, bottleneck, classes, channels);
}

std::unique_ptr<Layer> torchvision_vgg16_bn(std::int64_t classes, const Shape& image) {
  constexpr std::int64_t cells = 7;
  constexpr std::array<std::pair<int, std::int64_t>, 5> groups{
      {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}};
  Numbered features;
  std::int64_t channels = image[0], height = image[1], width = image[2];
  for (const auto& [convolutions, channels_out] : groups) {
    for (int i = 0; i < convolutions; ++i) {
      features.layer(convolution(channels, channels_out, 3, 1, 1, /*bias=*/true));
      features.layer(batch_norm(channels_out, /*relu=*/true)).relu_is_done();
      channels = channels_out;
    }
    features.function([](const Variable& x) { return pool(x, 2, 2, 0); }).end_block();
    height /= 2;
    width /= 2;
  }
  auto net = std::make_unique<Sequential>();
  net->append("features", features.take());
  net->append(means_of_cells("tv_vgg16_bn", image, height, width, cells));
  net->append("classifier", Numbered()
                                .layer(linear_relu(channels * cells * cells, units))
                                .relu_is_done()
                                .function(drop)
                                .layer(linear_relu(units, units))
                                .relu_is_done()
                                .function(drop)
                                .layer(std::make_unique<Linear>(units, classes))
                                .take());
  return net;
}

std::unique_ptr<Layer> torchvision_alexnet(std::int64_t classes, const Shape& image) {
  constexpr std::int64_t cells = 6, channels = 256;
  const auto halve = [](const Variable& x) { return pool(x, 3, 2, 0); };
  const auto last_pixels = [](std::int64_t pixels) {
    const auto halved = [](std::int64_t side) { return (side - 3) / 2 + 1; };
    return halved(halved(halved((pixels + 4 - 11) / 4 + 1)));
  };
  auto net = std::make_unique<Sequential>();
  net->append("features",
              Numbered()
                  .layer(convolution(image[0], 64, 11, 4, 2, /*bias=*/true, /*relu=*/true))
                  .relu_is_done()
                  .function(halve)
                  .layer(convolution(64, 192, 5, 1, 2, /*bias=*/true, /*relu=*/true))
                  .relu_is_done()
                  .function(halve)
                  .layer(convolution(192, 384, 3, 1, 1, /*bias=*/true, /*relu=*/true))
                  .relu_is_done()
                  .layer(convolution(384, channels, 3, 1, 1, /*bias=*/true, /*relu=*/true))
                  .relu_is_done()
                  .layer(convolution(channels, channels, 3, 1, 1, /*bias=*/true, /*relu=*/true))
                  .relu_is_done()
                  .function(halve)
                  .take());
  net->append(
      means_of_cells("tv_alexnet", image, last_pixels(image[1]), last_pixels(image[2]), cells));
  net->append("classifier", Numbered()
                                .function(drop)
                                .layer(linear_relu(channels * cells * cells, units))
                                .relu_is_done()
                                .function(drop)
                                .layer(linear_relu(units, units))
                                .relu_is_done()
                                .layer(std::make_unique<Linear>(units, classes))
                                .take());
  return net;
}

}  // namespace tasuki
