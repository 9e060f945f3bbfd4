#include "models/vgg.hpp"

#include <functional>
#include <string>
#include <vector>

#include "models/conv_block.hpp"
#include "nn/connection.hpp"
#include "nn/functions/images.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/sequential.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

// A number of convolutions with this many channels, then a pooling that halves the image.
struct Group {
  int convolutions;
  std::int64_t channels;
};

// Calls `append` for each convolution, with its number ("3_2") and channels, and appends the
// poolings. Returns the last convolution's channels.
using AppendConvolution =
    std::function<void(const std::string& number, std::int64_t from, std::int64_t to)>;
std::int64_t append_groups(Sequential& net, const std::vector<Group>& groups, std::int64_t channels,
                           const AppendConvolution& append) {
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (int i = 1; i <= groups[group].convolutions; ++i) {
      append(fmt::format("{}_{}", group + 1, i), channels, groups[group].channels);
      channels = groups[group].channels;
    }
    net.append([](const Variable& x) { return F::max_pooling_2d(x, 2); }).end_block();
  }
  return channels;
}

// Pixels along an axis after three poolings, which round up.
std::int64_t after_three_poolings(std::int64_t pixels) {
  return (pixels + 7) / 8;
}

}  // namespace

std::unique_ptr<Layer> vgg_small(std::int64_t classes, const Shape& image) {
  TASUKI_CHECK(image.rank() == 3, "vgg_small: expected images of channels x H x W, found {}",
               image.text());
  constexpr std::int64_t units = 1024;
  auto net = std::make_unique<Sequential>();
  const std::int64_t channels = append_groups(
      *net, {{2, 64}, {2, 128}, {3, 256}}, image[0],
      [&](const std::string& number, std::int64_t from, std::int64_t to) {
        net->append("conv" + number,
                    std::make_unique<Conv2d>(from, to, 3, /*stride=*/1, /*pad=*/1, /*bias=*/true,
                                             initializers::he_normal(), /*relu=*/true));
      });
  const std::int64_t pixels = after_three_poolings(image[1]) * after_three_poolings(image[2]);
  net->append("fc1", std::make_unique<Linear>(channels * pixels, units, /*bias=*/true,
                                              initializers::lecun_normal(), /*relu=*/true));
  net->append([](const Variable& x) { return F::dropout(x, 0.5F); });
  net->append("fc2", std::make_unique<Linear>(units, classes));
  return net;
}

std::unique_ptr<Layer> vgg16_bn(std::int64_t classes, std::int64_t channels,
                                const MakeConvolution& convolution) {
  auto net = std::make_unique<Sequential>();
  channels = append_groups(*net, {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}, channels,
                           [&](const std::string& number, std::int64_t from, std::int64_t to) {
                             net->append("block" + number, conv_block(from, to, convolution));
                           });
  net->append(F::global_average_pooling_2d);
  net->append("fc", std::make_unique<Linear>(channels, classes));
  return net;
}

}  // namespace tasuki
