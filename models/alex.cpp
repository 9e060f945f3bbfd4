#include "models/alex.hpp"

#include "nn/connection.hpp"
#include "nn/functions/images.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/sequential.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

// Pixels along an axis after the first convolution and three poolings, whose windows may reach over
// the far edge.
std::int64_t last_pixels(std::int64_t pixels) {
  pixels = (pixels - 11) / 4 + 1;
  for (int i = 0; i < 3; ++i) pixels = pixels / 2;
  return pixels;
}

Variable normalise(const Variable& x) {
  return F::local_response_norm(x);
}
Variable halve(const Variable& x) {
  return F::max_pooling_2d(x, 3, /*stride=*/2);
}
Variable drop(const Variable& x) {
  return F::dropout(x);
}

}  // namespace

std::unique_ptr<Layer> alex(std::int64_t classes, const Shape& image) {
  constexpr std::int64_t units = 4096;
  const auto conv_relu = [](std::int64_t from, std::int64_t to, std::int64_t kernel,
                            std::int64_t stride = 1, std::int64_t pad = 0) {
    return std::make_unique<Conv2d>(from, to, kernel, stride, pad, /*bias=*/true,
                                    initializers::lecun_normal(), /*relu=*/true);
  };
  const auto linear_relu = [=](std::int64_t from) {
    return std::make_unique<Linear>(from, units, /*bias=*/true, initializers::lecun_normal(),
                                    /*relu=*/true);
  };
  auto net = std::make_unique<Sequential>();
  net->append("conv1", conv_relu(image[0], 96, 11, 4)).append(normalise).append(halve).end_block();
  net->append("conv2", conv_relu(96, 256, 5, 1, 2)).append(normalise).append(halve).end_block();
  net->append("conv3", conv_relu(256, 384, 3, 1, 1));
  net->append("conv4", conv_relu(384, 384, 3, 1, 1));
  net->append("conv5", conv_relu(384, 256, 3, 1, 1)).append(halve).end_block();
  net->append("fc6", linear_relu(256 * last_pixels(image[1]) * last_pixels(image[2])));
  net->append(drop);
  net->append("fc7", linear_relu(units)).append(drop);
  net->append("fc8", std::make_unique<Linear>(units, classes));
  return net;
}

}  // namespace tasuki
