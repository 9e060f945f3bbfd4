#include "problems.hpp"
#include "tensor/array_operations.hpp"

namespace tasuki::testing {
namespace {

Results reduced(Side& side, const Shape& shape, AxisSet axes) {
  const Tensor x = side.activations(shape, 0, 1);
  ArrayOperations& arrays = side.backend().arrays();
  return {{"sum", arrays.reduce(Reduction::sum, x, axes, 0.25f, x.dtype())},
          {"sum in float32", arrays.reduce(Reduction::sum, x, axes, 1, DType::float32)},
          {"max", arrays.reduce(Reduction::max, x, axes, 1, x.dtype())}};
}

// All axes in another order, and a part of each.
Results viewed(Side& side, const Shape& shape, const std::vector<int>& order) {
  const Tensor x = side.activations(shape);
  View turned(shape), part(shape);
  for (int i = 0; i < shape.rank(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    turned.shape[i] = shape[order[at]];
    turned.strides[at] = part.strides[static_cast<std::size_t>(order[at])];
  }
  for (int i = 0; i < shape.rank(); ++i) {
    part.shape[i] = shape[i] - shape[i] / 2;
    part.offset += shape[i] / 2 * part.strides[static_cast<std::size_t>(i)];
  }
  ArrayOperations& arrays = side.backend().arrays();
  const Tensor into = side.activations(shape).clone();
  arrays.put_view(into, part, side.activations(part.shape));
  return {
      {"turned", arrays.take_view(x, turned)}, {"part", arrays.take_view(x, part)}, {"put", into}};
}

// Labels and other data are moved, too.
Results viewed_as(Side& side, DType type) {
  const Tensor x = side.parameters({9, 5}, 0, 250).to(Device::cpu()).to(type).to(side.device());
  View turned({5, 9});
  turned.strides = {1, 5};
  View every_other({5, 5});
  every_other.strides = {10, 1};
  return {{"turned", side.backend().arrays().take_view(x, turned)},
          {"every other row", side.backend().arrays().take_view(x, every_other)}};
}

Results product(Side& side, const Shape& a, const Shape& b) {
  ArrayOperations& arrays = side.backend().arrays();
  const auto turned = [](Shape shape) {
    std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
    return shape;
  };
  Results results;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool sums : {false, true}) {
        const Tensor left = side.activations(ta ? turned(a) : a);
        const Tensor right = side.activations(tb ? turned(b) : b);
        results.push_back(
            {fmt::format("{}{}{}", ta, tb, sums), arrays.matmul(left, ta, right, tb, sums)});
      }
  return results;
}

}  // namespace

void add_array_operations_problems(Problems& problems) {
  const auto add = [&](const std::string& name, std::function<Results(Side&)> compute) {
    problems.push_back({"arrays: " + name, std::move(compute)});
  };
  const std::vector<std::pair<Shape, AxisSet>> reductions = {{{5, 33}, 1},
                                                             {{5, 33}, 2},
                                                             {{5, 33}, 3},
                                                             {{3, 4, 5, 6}, 0b1101},
                                                             {{3, 4, 5, 6}, 0b0110},
                                                             {{9000}, 1},
                                                             {{600, 7}, 1},
                                                             {{2, 3, 2, 2, 3, 2}, 0b101010},
                                                             {{4, 1}, 2},
                                                             {{}, 0},
                                                             {{6, 4}, 0}};
  for (const auto& [shape, axes] : reductions)
    add(fmt::format("reduction of {} over {:b}", shape.text(), axes),
        [shape = shape, axes = axes](Side& side) { return reduced(side, shape, axes); });
  add("sum of nothing", [](Side& side) -> Results {
    const Tensor x = side.activations({3, 0});
    return {{"sum", side.backend().arrays().reduce(Reduction::sum, x, 2, 2, x.dtype())}};
  });
  const std::vector<std::pair<Shape, std::vector<int>>> views = {
      {{33, 70}, {1, 0}},
      {{3, 33, 35}, {0, 2, 1}},
      {{3, 5, 7}, {2, 0, 1}},
      {{2, 3, 4, 5}, {0, 2, 1, 3}},
      {{2, 3, 1, 2, 3, 2}, {5, 3, 1, 0, 2, 4}},
      {{7}, {0}}};
  for (const auto& [shape, order] : views)
    add("views of " + shape.text(),
        [shape = shape, order = order](Side& side) { return viewed(side, shape, order); });
  for (const DType type : every_type)
    add(fmt::format("views of {}", name_of(type)),
        [=](Side& side) { return viewed_as(side, type); });
  const std::vector<std::pair<Shape, Shape>> products = {
      {{5, 7}, {7, 4}},      {{3, 8, 16}, {3, 16, 24}}, {{2, 3, 5, 4}, {2, 3, 4, 1}},
      {{3, 4, 8}, {8, 6}},   {{4, 8}, {3, 8, 6}},       {{2, 3, 0}, {2, 0, 4}},
      {{0, 3, 2}, {0, 2, 4}}};
  for (const auto& [a, b] : products)
    add(fmt::format("products of {} and {}", a.text(), b.text()),
        [a = a, b = b](Side& side) { return product(side, a, b); });
}

}  // namespace tasuki::testing
