#include "problems.hpp"

namespace tasuki::testing {
namespace {

struct Size {
  std::int64_t items, inputs, outputs;
};

Results linear(Side& side, const Size& size, bool accumulate) {
  const Tensor x = side.activations({size.items, size.inputs});
  const Tensor dy = side.activations({size.items, size.outputs});
  const Tensor w = side.weights({size.outputs, size.inputs});
  const Tensor b = side.weights({size.outputs});
  const Tensor dw = side.destination(w.shape(), accumulate);
  const Tensor db = side.destination(b.shape(), accumulate);
  Backend& backend = side.backend();
  const Tensor y = backend.linear(x, w, b, false), without_bias = backend.linear(x, w, {}, false);
  const Tensor positive = backend.linear(x, w, b, true);
  const Tensor positive_without_bias = backend.linear(x, w, {}, true);
  const Tensor dx = backend.linear_backward_data(dy, w);
  const Tensor db_beside_dw = side.destination(b.shape(), false);
  backend.linear_backward_weights(x, dy, dw, accumulate, db_beside_dw);
  backend.backward_bias(dy, db, accumulate);
  Tensor before, before_tanh, before_alone;
  const Tensor gelu = backend.linear_gelu(x, w, b, false, &before);
  const Tensor gelu_tanh = backend.linear_gelu(x, w, b, true, &before_tanh);
  const Tensor gelu_alone = backend.linear_gelu(x, w, {}, true, &before_alone);
  const Tensor dw_alone = side.destination(w.shape(), accumulate);
  backend.linear_backward_weights(x, dy, dw_alone, accumulate, {});
  return {{"y", y},
          {"y without bias", without_bias},
          {"y with ReLU", positive},
          {"y with ReLU, without bias", positive_without_bias},
          {"y added", backend.add_linear(dy, x, w, b)},
          {"y added, without bias", backend.add_linear(dy, x, w, {})},
          {"y with GELU", gelu},
          {"y before GELU", before},
          {"y with GELU by tanh", gelu_tanh},
          {"y before GELU by tanh", before_tanh},
          {"y with GELU by tanh, without bias", gelu_alone},
          {"y before GELU by tanh, without bias", before_alone},
          {"dx", dx},
          {"dw", dw},
          {"dw alone", dw_alone},
          {"db", db},
          {"db beside dw", db_beside_dw}};
}

// Weights that are of the activations' type already.
Results rounded(Side& side, const Size& size) {
  const Tensor x = side.activations({size.items, size.inputs});
  const Tensor dy = side.activations({size.items, size.outputs});
  const Tensor w = side.activations({size.outputs, size.inputs});
  const Tensor b = side.activations({size.outputs});
  Backend& backend = side.backend();
  Tensor before;
  const Tensor gelu = backend.linear_gelu(x, w, b, true, &before);
  return {{"y", backend.linear(x, w, b, false)},
          {"y with GELU by tanh", gelu},
          {"y before GELU by tanh", before},
          {"y with ReLU", backend.linear(x, w, b, true)},
          {"y added", backend.add_linear(dy, x, w, b)},
          {"dx", backend.linear_backward_data(dy, w)}};
}

Results image_bias(Side& side, const Shape& shape, bool accumulate) {
  const Tensor dy = side.activations(shape);
  const Tensor db = side.destination({shape[1]}, accumulate);
  side.backend().backward_bias(dy, db, accumulate);
  return {{"db", db}};
}

}  // namespace

// One input has several outputs: a single product may nearly cancel out with its bias, and what is
// rounded before they are added is then much of the sum.
void add_linear_problems(Problems& problems) {
  for (const Size& size : {Size{100, 784, 1000}, Size{100, 1000, 10}, Size{1, 1, 16},
                           Size{3, 17, 5}, Size{33, 31, 129}, Size{33, 31, 24}, Size{3, 0, 8},
                           Size{0, 8, 4}, Size{64, 64, 64}, Size{300, 8, 77}})
    for (const bool accumulate : {false, true})
      problems.push_back({fmt::format("linear/{} x {} x {}{}", size.items, size.inputs,
                                      size.outputs, accumulate ? ", added" : ""),
                          [=](Side& side) { return linear(side, size, accumulate); }});
  for (const Size& size : {Size{100, 784, 1000}, Size{3, 17, 5}, Size{0, 8, 4}})
    problems.push_back(
        {fmt::format("linear/rounded weights, {} x {} x {}", size.items, size.inputs, size.outputs),
         [=](Side& side) { return rounded(side, size); }});
  for (const Shape& shape : {Shape{4, 6, 9, 7}, Shape{1, 1, 1, 1}, Shape{0, 3, 4, 4}})
    for (const bool accumulate : {false, true})
      problems.push_back({fmt::format("bias/{}{}", shape.text(), accumulate ? ", added" : ""),
                          [=](Side& side) { return image_bias(side, shape, accumulate); }});
}

}  // namespace tasuki::testing
