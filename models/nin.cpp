#include "models/nin.hpp"

#include "nn/connection.hpp"
#include "nn/functions/images.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/sequential.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

Variable pool(const Variable& x) {
  return F::max_pooling_2d(x, 3, /*stride=*/2);
}

}  // namespace

std::unique_ptr<Layer> nin(std::int64_t classes, std::int64_t channels) {
  const auto mlpconv = [](std::int64_t from, const std::vector<std::int64_t>& to,
                          std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                          bool last_relu = true) {
    return std::make_unique<MlpConv2d>(from, to, kernel, stride, pad, initializers::he_normal(),
                                       last_relu);
  };
  auto net = std::make_unique<Sequential>();
  net->append("mlpconv1", mlpconv(channels, {96, 96, 96}, 11, 4, 0)).append(pool).end_block();
  net->append("mlpconv2", mlpconv(96, {256, 256, 256}, 5, 1, 2)).append(pool).end_block();
  net->append("mlpconv3", mlpconv(256, {384, 384, 384}, 3, 1, 1)).append(pool).end_block();
  net->append([](const Variable& x) { return F::dropout(x); });
  net->append("mlpconv4", mlpconv(384, {1024, 1024, classes}, 3, 1, 1, /*last_relu=*/false));
  net->append(F::global_average_pooling_2d);
  return net;
}

}  // namespace tasuki
