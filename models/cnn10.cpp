#include "models/cnn10.hpp"

#include "models/conv_block.hpp"
#include "nn/connection.hpp"
#include "nn/functions/images.hpp"
#include "nn/sequential.hpp"

namespace F = tasuki::functions;

namespace tasuki {

std::unique_ptr<Layer> cnn10(std::int64_t classes, std::int64_t channels) {
  auto net = std::make_unique<Sequential>();
  int group = 0;
  for (const std::int64_t width : {64, 128, 256}) {
    if (group > 0)
      net->append([](const Variable& x) { return F::average_pooling_2d(x, 2); }).end_block();
    ++group;
    for (int i = 1; i <= 3; ++i) {
      net->append(fmt::format("block{}_{}", group, i), conv_block(channels, width));
      channels = width;
    }
  }
  net->append(F::global_average_pooling_2d).end_block();
  net->append("fc", std::make_unique<Linear>(channels, classes));
  return net;
}

}  // namespace tasuki
