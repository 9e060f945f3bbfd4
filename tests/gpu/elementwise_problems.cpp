#include <array>

#include "problems.hpp"

namespace tasuki::testing {
namespace {

Results unary(Side& side, Unary op, const Shape& shape) {
  const Tensor x = side.activations(shape), dy = side.activations(shape);
  const Tensor y = side.backend().unary(op, x, 0.2f);
  // From the same y on both sides: rounded values near 0 would be on another side of a kink.
  const Tensor from = side.activations(shape);
  return {{"y", y}, {"dx", side.backend().unary_backward(op, from, dy, 0.2f)}};
}

Results join(Side& side, int axis) {
  const std::array<Tensor, 3> parts = {side.activations({3, 4, 5}), side.activations({3, 4, 5}),
                                       side.activations({3, 4, 5})};
  const Tensor joined = side.backend().concat(parts, axis);
  return {{"joined", joined}, {"part", side.backend().take(joined, axis, 2, 5)}};
}

}  // namespace

void add_elementwise_problems(Problems& problems) {
  const std::array<std::pair<const char*, Unary>, 4> unaries = {{{"relu", Unary::relu},
                                                                 {"leaky_relu", Unary::leaky_relu},
                                                                 {"sigmoid", Unary::sigmoid},
                                                                 {"tanh", Unary::tanh}}};
  for (const Shape& shape : {Shape{7, 33}, Shape{1}, Shape{0, 5}, Shape{4, 3, 16, 16}}) {
    const std::string size = "/" + shape.text();
    for (const auto& [name, op] : unaries)
      problems.push_back(
          {name + size, [=, op = op](Side& side) { return unary(side, op, shape); }});
    problems.push_back({"add" + size, [=](Side& side) -> Results {
                          const Tensor a = side.activations(shape), b = side.activations(shape);
                          return {{"sum", side.backend().add(a, b)}};
                        }});
    problems.push_back({"accumulate" + size, [=](Side& side) -> Results {
                          const Tensor a = side.parameters(shape), b = side.parameters(shape);
                          side.backend().accumulate(a, b, -1.5f);
                          return {{"sum", a}};
                        }});
    problems.push_back({"scale" + size, [=](Side& side) -> Results {
                          const Tensor x = side.parameters(shape);
                          side.backend().scale(x, 0.37f);
                          return {{"x", x}};
                        }});
  }
  for (const int axis : {0, 1, 2})
    problems.push_back(
        {fmt::format("concat/axis {}", axis), [=](Side& side) { return join(side, axis); }});
}

}  // namespace tasuki::testing
