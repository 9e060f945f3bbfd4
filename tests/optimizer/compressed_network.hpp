// What tests of compressed and rounded gradients share: a network, and random numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/philox.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/loss.hpp"

namespace tasuki::testing {

inline std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = random.normal();
  return values;
}

// Weights of 20 x 50 and, as matrices, 8 x 36; biases, and a matrix that would not become smaller.
class Network : public Module {
 public:
  Network() {
    add("conv", conv_);
    add("wide", wide_);
    add("small", small_);
    initialize(1);
  }
  using Module::add;
  Variable loss(const Tensor& x, const Tensor& t) {
    Variable h = functions::relu(conv_(Variable(x)));
    return functions::softmax_cross_entropy(small_(functions::relu(wide_(h))), t);
  }

 private:
  Conv2d conv_{4, 8, 3};
  Linear wide_{32, 20}, small_{20, 2};
};

}  // namespace tasuki::testing
