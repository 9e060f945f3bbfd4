#include "models/lenet.hpp"

#include "nn/connection.hpp"
#include "nn/functions/images.hpp"
#include "nn/sequential.hpp"

namespace F = tasuki::functions;

namespace tasuki {

std::unique_ptr<Layer> lenet(std::int64_t classes) {
  const Initializer weights = initializers::normal(0.01);
  const auto convolution = [&](std::int64_t from, std::int64_t to, std::int64_t kernel) {
    return std::make_unique<Conv2d>(from, to, kernel, /*stride=*/1, /*pad=*/0, /*bias=*/true,
                                    weights);
  };
  const auto connected = [&](std::int64_t from, std::int64_t to, bool relu) {
    return std::make_unique<Linear>(from, to, /*bias=*/true, weights, relu);
  };
  const auto relu_halve = [](const Variable& x) { return F::relu_average_pooling_2d(x, 2); };

  auto net = std::make_unique<Sequential>();
  net->append("conv1", convolution(1, 20, 3)).append(relu_halve);
  net->append("conv2", convolution(20, 50, 5)).append(relu_halve);
  net->append("fc1", connected(50 * 4 * 4, 128, /*relu=*/true));
  net->append("fc2", connected(128, classes, /*relu=*/false));
  return net;
}

}  // namespace tasuki
