#include "models/resnet.hpp"

#include <string>
#include <vector>

#include "models/conv_block.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/images.hpp"
#include "nn/sequential.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

// relu(convolutions(x) + shortcut(x)): conv1, bn1, ReLU, conv2, bn2, ReLU ..., the last
// normalisation without ReLU. If stride or channels require it, the shortcut is one more
// convolution, 1x1, with the next number.
class ResidualBlock final : public Layer {
 public:
  struct Convolution {
    std::int64_t channels_out, kernel, stride;
  };

  ResidualBlock(std::int64_t channels_in, const std::vector<Convolution>& convolutions) {
    std::int64_t channels = channels_in, stride = 1;
    for (const Convolution& each : convolutions) {
      const bool is_last = &each == &convolutions.back();
      append(main_, same_convolution(channels, each.channels_out, each.kernel, each.stride),
             is_last ? std::make_unique<BatchNorm>(each.channels_out)
                     : batch_norm_relu(each.channels_out));
      channels = each.channels_out;
      stride *= each.stride;
    }
    if (stride != 1 || channels != channels_in)
      append(shortcut_, same_convolution(channels_in, channels, 1, stride),
             std::make_unique<BatchNorm>(channels));
  }

  Variable forward(const Variable& x) override {
    return F::relu(run(main_, x) + run(shortcut_, x));
  }

 private:
  struct Pair {
    std::unique_ptr<Conv2d> conv;
    std::unique_ptr<BatchNorm> bn;
  };

  void append(std::vector<Pair>& path, std::unique_ptr<Conv2d> conv,
              std::unique_ptr<BatchNorm> bn) {
    const std::size_t number = main_.size() + shortcut_.size() + 1;
    add(fmt::format("conv{}", number), *conv);
    add(fmt::format("bn{}", number), *bn);
    path.push_back({std::move(conv), std::move(bn)});
  }

  static Variable run(const std::vector<Pair>& path, Variable x) {
    for (const auto& [conv, bn] : path) x = (*bn)((*conv)(x));
    return x;
  }

  std::vector<Pair> main_, shortcut_;
};

std::vector<ResidualBlock::Convolution> basic(std::int64_t width, std::int64_t stride) {
  return {{width, 3, stride}, {width, 3, 1}};
}

std::vector<ResidualBlock::Convolution> bottleneck(std::int64_t width, std::int64_t stride) {
  return {{width, 1, stride}, {width, 3, 1}, {4 * width, 1, 1}};
}

// res2, res3, ...: blocks "0", "1", ..., the first of each but res2 with stride 2. Returns the
// number of output channels.
template <class MakeConvolutions>
std::int64_t append_stages(Sequential& net, const std::vector<int>& blocks, std::int64_t channels,
                           std::int64_t width, const MakeConvolutions& make) {
  for (std::size_t stage = 0; stage < blocks.size(); ++stage, width *= 2) {
    auto residual = std::make_unique<Sequential>();
    for (int i = 0; i < blocks[stage]; ++i) {
      const auto convolutions = make(width, stage > 0 && i == 0 ? 2 : 1);
      residual->append(std::to_string(i), std::make_unique<ResidualBlock>(channels, convolutions))
          .end_block();
      channels = convolutions.back().channels_out;
    }
    net.append(fmt::format("res{}", stage + 2), std::move(residual));
  }
  return channels;
}

void append_head(Sequential& net, std::int64_t channels, std::int64_t classes) {
  net.append(F::global_average_pooling_2d);
  net.append("fc", std::make_unique<Linear>(channels, classes));
}

template <class MakeConvolutions>
std::unique_ptr<Layer> imagenet_resnet(const std::vector<int>& blocks, const MakeConvolutions& make,
                                       std::int64_t classes, std::int64_t channels,
                                       ResNetStem stem) {
  constexpr std::int64_t width = 64;
  auto net = std::make_unique<Sequential>();
  if (stem == ResNetStem::imagenet) {
    net->append("conv1", std::make_unique<Conv2d>(channels, width, 7, /*stride=*/2, /*pad=*/3,
                                                  /*bias=*/true, initializers::he_normal()));
    net->append("bn1", batch_norm_relu(width));
    net->append([](const Variable& x) { return F::max_pooling_2d(x, 3, /*stride=*/2); });
  } else {
    net->append("conv1", same_convolution(channels, width, 3));
    net->append("bn1", batch_norm_relu(width));
  }
  channels = append_stages(*net, blocks, width, width, make);
  append_head(*net, channels, classes);
  return net;
}

}  // namespace

std::unique_ptr<Layer> small_resnet(int depth, std::int64_t classes, std::int64_t channels) {
  TASUKI_CHECK(depth >= 8 && depth % 6 == 2, "a small ResNet has 6 n + 2 layers, found {}", depth);
  constexpr std::int64_t stem = 16;
  const int blocks = (depth - 2) / 6;
  auto net = std::make_unique<Sequential>();
  net->append("conv1", same_convolution(channels, stem, 3)).append("bn1", batch_norm_relu(stem));
  channels = append_stages(*net, {blocks, blocks, blocks}, stem, stem, basic);
  append_head(*net, channels, classes);
  return net;
}

std::unique_ptr<Layer> resnet18(std::int64_t classes, std::int64_t channels, ResNetStem stem) {
  return imagenet_resnet({2, 2, 2, 2}, basic, classes, channels, stem);
}

std::unique_ptr<Layer> resnet50(std::int64_t classes, std::int64_t channels, ResNetStem stem) {
  return imagenet_resnet({3, 4, 6, 3}, bottleneck, classes, channels, stem);
}

}  // namespace tasuki
