#include <array>

#include "problems.hpp"
#include "tasuki/tensor/elementwise_operations.hpp"

namespace tasuki::testing {
namespace {

struct MapCase {
  const char* name;
  Map f;
  float low, high;  // of x
  float p = 0, q = 0;
};

Results map(Side& side, const MapCase& test, const Shape& shape) {
  const Tensor x = side.activations(shape, test.low, test.high), dy = side.activations(shape);
  ElementwiseOperations& operations = side.backend().elementwise();
  return {{"y", operations.map(test.f, x, test.p, test.q)},
          {"dx", operations.map_gradient(test.f, x, dy, test.p, test.q)}};
}

}  // namespace

void add_elementwise_operations_problems(Problems& problems) {
  const std::array<MapCase, 15> maps = {{{"affine", Map::affine, -1, 1, 2.5f, -0.5f},
                                         {"quotient", Map::quotient, 0.5f, 2, 3},
                                         {"square", Map::power, -1, 1, 2},
                                         {"power", Map::power, 0.1f, 2, 1.7f},
                                         {"power 0", Map::power, -1, 1, 0},
                                         {"exp", Map::exp, -3, 3},
                                         {"log", Map::log, 0.1f, 4},
                                         {"sqrt", Map::sqrt, 0.1f, 4},
                                         {"abs", Map::abs, -1, 1},
                                         {"clip", Map::clip, -1, 1, -0.3f, 0.6f},
                                         {"gelu", Map::gelu, -4, 4},
                                         {"gelu_tanh", Map::gelu_tanh, -4, 4},
                                         {"silu", Map::silu, -4, 4},
                                         {"elu", Map::elu, -3, 3, 0.7f},
                                         {"softplus", Map::softplus, -3, 3, 1.5f}}};
  for (const MapCase& test : maps)
    for (const Shape& shape : {Shape{7, 33}, Shape{0, 5}, Shape{}})
      problems.push_back({fmt::format("elementwise: {}/{}", test.name, shape.text()),
                          [=](Side& side) { return map(side, test, shape); }});
}

}  // namespace tasuki::testing
