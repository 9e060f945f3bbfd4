#include "nn/mlp_conv2d.hpp"

#include "nn/functions/activation.hpp"

namespace tasuki {

MlpConv2d::MlpConv2d(std::int64_t channels_in, const std::vector<std::int64_t>& channels_out,
                     std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                     const Initializer& weights) {
  TASUKI_CHECK(!channels_out.empty(), "an MlpConv2d needs at least one convolution");
  for (const std::int64_t channels : channels_out) {
    const bool is_first = convolutions_.empty();
    convolutions_.push_back(std::make_unique<Conv2d>(channels_in, channels, is_first ? kernel : 1,
                                                     is_first ? stride : 1, is_first ? pad : 0,
                                                     /*bias=*/true, weights));
    add(fmt::format("{}", convolutions_.size() - 1), *convolutions_.back());
    channels_in = channels;
  }
}

Variable MlpConv2d::forward(const Variable& x) {
  Variable h = x;
  for (const auto& convolution : convolutions_)
    h = (*convolution)(convolution == convolutions_.front() ? h : relu(h));
  return h;
}

}  // namespace tasuki
