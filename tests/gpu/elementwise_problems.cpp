#include <array>
#include <numeric>

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

Results join(Side& side, const Shape& shape, int axis) {
  const std::array<Tensor, 3> parts = {side.activations(shape), side.activations(shape),
                                       side.activations(shape)};
  const Tensor joined = side.backend().concat(parts, axis);
  return {{"joined", joined}, {"part", side.backend().take(joined, axis, 2, 5)}};
}

Results dropout(Side& side, const Tensor& x) {
  const Tensor ids = Tensor::empty({x.shape()[0]}, DType::int64);
  const auto numbers = ids.span<std::int64_t>();
  std::iota(numbers.begin(), numbers.end(), std::int64_t{1} << 33);
  const Tensor seed = Tensor::full({1}, 77, DType::int64);
  return {{"y", side.backend().dropout(x, 0.4f, seed.to(x.device()), ids.to(x.device()))}};
}

// Of values in the order in which a convolution leaves them, which computes nothing here.
Results dropout_of_images(Side& side, const Shape& shape) {
  const std::int64_t channels = shape[1];
  const Tensor same = Tensor::zeros({channels, channels, 1, 1});
  for (std::int64_t c = 0; c < channels; ++c) same.data<float>()[c * channels + c] = 1;
  return dropout(side,
                 side.backend().conv2d(side.activations(shape), same.to(side.device()), {}, {}));
}

Results gather(Side& side, DType from, const Shape& shape) {
  Tensor source = Tensor::empty(shape, DType::uint8);
  for (std::int64_t i = 0; i < source.count(); ++i)
    source.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 37);
  const std::array<std::int64_t, 5> numbers = {4, 0, 0, 6, 2};
  const Tensor indices = Tensor::from(std::span<const std::int64_t>(numbers), {5});
  const Tensor data = source.to(from).to(side.device());
  return {{"batch", side.backend().gather(data, indices.to(side.device()), side.dtype())},
          {"numbers on the host", side.backend().gather(data, indices, side.dtype())}};
}

// Labels, or data in the type that they are wanted in.
Results gather_as_stored(Side& side, DType type) {
  const Tensor data = side.parameters({9, 3, 4}, 0, 250).to(Device::cpu()).to(type);
  const std::array<std::int64_t, 4> numbers = {8, 8, 0, 3};
  const Tensor indices = Tensor::from(std::span<const std::int64_t>(numbers), {4});
  return {{"batch", side.backend().gather(data.to(side.device()), indices, type)}};
}

}  // namespace

void add_elementwise_problems(Problems& problems) {
  const std::array<std::pair<const char*, Unary>, 4> unaries = {{{"relu", Unary::relu},
                                                                 {"leaky_relu", Unary::leaky_relu},
                                                                 {"sigmoid", Unary::sigmoid},
                                                                 {"tanh", Unary::tanh}}};
  for (const Shape& shape :
       {Shape{7, 33}, Shape{1}, Shape{0, 5}, Shape{4, 3, 16, 16}, Shape{140001}}) {
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
  problems.push_back({"add/without alignment", [](Side& side) -> Results {
                        const Tensor a = side.activations({40000}), b = side.activations({40000});
                        return {{"sum", side.backend().add(a.slice(1, 39998), b.slice(3, 40000))}};
                      }});
  for (const std::int64_t count : {1, 130, 70001})
    problems.push_back({fmt::format("moving averages/{}", count), [=](Side& side) -> Results {
                          const Tensor a = side.parameters({count}), b = side.parameters({count});
                          const std::array<MovingAverage, 2> averages = {
                              {{a, side.parameters({count}), 0.9f, 0.1f},
                               {b, side.parameters({count}), 0.75f, 0.3f}}};
                          side.backend().move_averages(averages);
                          return {{"first", a}, {"second", b}};
                        }});
  for (const int axis : {0, 1, 2})
    for (const Shape& shape : {Shape{3, 4, 5}, Shape{30, 40, 37}})
      problems.push_back({fmt::format("concat/{} along axis {}", shape.text(), axis),
                          [=](Side& side) { return join(side, shape, axis); }});
  for (const Shape& shape : {Shape{5, 129}, Shape{0, 4}, Shape{3, 4, 7, 7}, Shape{9, 16000},
                             Shape{9, 15996}, Shape{9, 15999}})
    problems.push_back({"dropout/" + shape.text(),
                        [=](Side& side) { return dropout(side, side.activations(shape)); }});
  // Channels that begin in the middle of a block of four values, and of fewer pixels than that.
  for (const Shape& shape : {Shape{3, 16, 8, 12}, Shape{3, 16, 7, 7}, Shape{2, 40, 3, 2},
                             Shape{5, 8, 1, 3}, Shape{4, 24, 2, 1}, Shape{6, 8, 1, 1}})
    problems.push_back({fmt::format("dropout/{} of a convolution", shape.text()),
                        [=](Side& side) { return dropout_of_images(side, shape); }});
  for (const DType from : {DType::uint8, DType::float32})
    for (const Shape& shape : {Shape{7, 784}, Shape{7, 3, 5, 5}, Shape{7, 30000}})
      problems.push_back({fmt::format("gather/{} from {}", shape.text(), name_of(from)),
                          [=](Side& side) { return gather(side, from, shape); }});
  for (const DType type : every_type)
    problems.push_back({fmt::format("gather/{} as stored", name_of(type)),
                        [=](Side& side) { return gather_as_stored(side, type); }});
}

}  // namespace tasuki::testing
