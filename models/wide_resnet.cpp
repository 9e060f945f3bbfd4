#include "models/wide_resnet.hpp"

#include "models/conv_block.hpp"
#include "nn/connection.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/images.hpp"
#include "nn/sequential.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

class Block final : public Layer {
 public:
  Block(std::int64_t channels_in, std::int64_t channels_out, std::int64_t stride)
      : bn1_(batch_norm_relu(channels_in)),
        conv1_(same_convolution(channels_in, channels_out, 3, stride)),
        bn2_(batch_norm_relu(channels_out)),
        conv2_(same_convolution(channels_out, channels_out, 3)) {
    add("bn1", *bn1_);
    add("conv1", *conv1_);
    add("bn2", *bn2_);
    add("conv2", *conv2_);
    if (channels_in == channels_out) return;
    shortcut_ = same_convolution(channels_in, channels_out, 1, stride);
    add("shortcut", *shortcut_);
  }

  Variable forward(const Variable& x) override {
    const Variable activated = (*bn1_)(x);
    const Variable y = (*conv2_)((*bn2_)((*conv1_)(activated)));
    return y + (shortcut_ ? (*shortcut_)(activated) : x);
  }

 private:
  std::unique_ptr<BatchNorm> bn1_;
  std::unique_ptr<Conv2d> conv1_;
  std::unique_ptr<BatchNorm> bn2_;
  std::unique_ptr<Conv2d> conv2_, shortcut_;
};

}  // namespace

std::unique_ptr<Layer> wide_resnet(int depth, std::int64_t widen, std::int64_t classes,
                                   std::int64_t channels) {
  TASUKI_CHECK(depth >= 10 && depth % 6 == 4 && widen >= 1,
               "a wide residual network has 6 n + 4 layers and is at least 1 wide, not {} and {}",
               depth, widen);
  constexpr std::int64_t stem = 16;
  auto net = std::make_unique<Sequential>();
  net->append("conv1", same_convolution(channels, stem, 3));
  channels = stem;
  for (int group = 1; group <= 3; ++group) {
    const std::int64_t width = (stem << (group - 1)) * widen;
    auto blocks = std::make_unique<Sequential>();
    for (int i = 1; i <= (depth - 4) / 6; ++i) {
      const std::int64_t stride = group > 1 && i == 1 ? 2 : 1;
      blocks->append(fmt::format("block{}", i), std::make_unique<Block>(channels, width, stride))
          .end_block();
      channels = width;
    }
    net->append(fmt::format("group{}", group), std::move(blocks));
  }
  net->append("bn", batch_norm_relu(channels));
  net->append(F::global_average_pooling_2d);
  net->append("fc", std::make_unique<Linear>(channels, classes));
  return net;
}

}  // namespace tasuki
