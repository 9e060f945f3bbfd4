#include "models/conv_block.hpp"

#include "nn/sequential.hpp"

namespace tasuki {

std::unique_ptr<Conv2d> same_convolution(std::int64_t channels_in, std::int64_t channels_out,
                                         std::int64_t kernel, std::int64_t stride) {
  return std::make_unique<Conv2d>(channels_in, channels_out, kernel, stride, /*pad=*/kernel / 2,
                                  /*bias=*/false, initializers::he_normal());
}

std::unique_ptr<BatchNorm> batch_norm_relu(std::int64_t channels) {
  BatchNorm::Settings settings;
  settings.relu = true;
  return std::make_unique<BatchNorm>(channels, settings);
}

std::unique_ptr<Layer> conv_block(std::int64_t channels_in, std::int64_t channels_out,
                                  const MakeConvolution& convolution) {
  auto block = std::make_unique<Sequential>();
  if (convolution)
    block->append("conv", convolution(channels_in, channels_out));
  else
    block->append("conv", same_convolution(channels_in, channels_out, 3));
  block->append("bn", batch_norm_relu(channels_out));
  return block;
}

}  // namespace tasuki
