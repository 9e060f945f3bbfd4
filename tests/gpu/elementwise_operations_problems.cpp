#include <array>

#include "problems.hpp"
#include "tensor/elementwise_operations.hpp"
#include "tensor/strided_loop.hpp"

namespace tasuki::testing {
namespace {

struct MapCase {
  const char* name;
  Map f;
  float low, high;  // of x
  float p = 0, q = 0;
};

// A single value lies between 0.5 and `high`: beside others a result that nearly cancels out, as
// gelu's of -4, adds little to the distance; alone it is all of it.
Results map(Side& side, const MapCase& test, const Shape& shape) {
  const float low = shape.rank() == 0 ? 0.5f : test.low;
  const Tensor x = side.activations(shape, low, test.high), dy = side.activations(shape);
  ElementwiseOperations& operations = side.backend().elementwise();
  return {{"y", operations.map(test.f, x, test.p, test.q)},
          {"dx", operations.map_gradient(test.f, x, dy, test.p, test.q)}};
}

// Both operands have kinds of values for which all functions are defined.
Results combined(Side& side, const Shape& left, const Shape& right) {
  const Tensor a = side.coarse_activations(left, 0.25f, 2);
  const Tensor b = side.coarse_activations(right, 0.25f, 2);
  const std::array shapes = {left, right};
  const Tensor c = side.activations(broadcast_shape(shapes, "combined"));
  ElementwiseOperations& each = side.backend().elementwise();
  Results results;
  for (const Binary f :
       {Binary::add, Binary::subtract, Binary::multiply, Binary::divide, Binary::maximum,
        Binary::minimum, Binary::power, Binary::equal, Binary::greater, Binary::greater_equal})
    results.push_back({fmt::format("binary {}", static_cast<int>(f)), each.binary(f, a, b)});
  for (const Ternary f : {Ternary::select, Ternary::if_greater_equal, Ternary::unless_greater_equal,
                          Ternary::if_equal, Ternary::divisor_gradient, Ternary::base_gradient,
                          Ternary::exponent_gradient})
    results.push_back({fmt::format("ternary {}", static_cast<int>(f)), each.ternary(f, a, b, c)});
  return results;
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
  const std::array<std::array<Shape, 2>, 7> pairs = {
      {{Shape{5, 33}, Shape{5, 33}},
       {Shape{4, 1, 3}, Shape{2, 1}},
       {Shape{}, Shape{2, 3}},
       {Shape{3, 5, 4, 4}, Shape{5, 1, 1}},
       {Shape{2, 1, 3, 1, 2, 1}, Shape{1, 2, 1, 3, 1, 2}},
       {Shape{0, 3}, Shape{3}},
       {Shape{70, 9}, Shape{70, 1}}}};
  for (const auto& [left, right] : pairs)
    problems.push_back(
        {fmt::format("elementwise: {} with {}", left.text(), right.text()),
         [left = left, right = right](Side& side) { return combined(side, left, right); }});
}

}  // namespace tasuki::testing
