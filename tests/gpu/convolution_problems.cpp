#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/connection.hpp"
#include "problems.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tensor/geometry.hpp"

namespace F = tasuki::functions;

namespace tasuki::testing {
namespace {

struct Size {
  Shape x, w;
  Conv2dOptions options;
};

Results convolution(Side& side, const Size& size, bool accumulate) {
  const ConvolutionGeometry geometry(size.x, size.w, size.options);
  const Tensor x = side.activations(size.x), dy = side.activations(geometry.y);
  const Tensor w = side.weights(size.w);
  // Products are rounded before the bias is added, which must not leave little of them.
  const Tensor b = side.parameters({size.w[0]}, 2, 3);
  const Tensor dw = side.destination(size.w, accumulate);
  Backend& backend = side.backend();
  const Tensor y = backend.conv2d(x, w, b, size.options);
  const Tensor without_bias = backend.conv2d(x, w, {}, size.options);
  const Tensor positive = backend.conv2d(x, w, b, size.options, nullptr, /*relu=*/true);
  const Tensor neither = backend.conv2d(x, w, {}, size.options, nullptr, /*relu=*/true);
  const Tensor dx = backend.conv2d_backward_data(dy, w, size.x, size.options);
  backend.conv2d_backward_weights(x, dy, dw, size.options, accumulate);
  return {{"y", y},
          {"y without bias", without_bias},
          {"y with ReLU", positive},
          {"y with ReLU, without bias", neither},
          {"dx", dx},
          {"dw", dw}};
}

// Computes convolutions on the CPU directly while it lives.
class DirectConvolutions {
 public:
  DirectConvolutions() : before_(conv_algorithm()) { set_conv_algorithm(ConvAlgorithm::direct); }
  ~DirectConvolutions() { set_conv_algorithm(before_); }
  DirectConvolutions(const DirectConvolutions&) = delete;
  DirectConvolutions& operator=(const DirectConvolutions&) = delete;

 private:
  ConvAlgorithm before_;
};

// Gradients of convolution, bias and ReLU. No result near 0 may change its sign, whose gradient
// would differ: the biases are zeros, because a sum may be rounded before one is added, and
// Winograd's algorithm rounds before it adds up.
Results with_relu(Side& side, const Size& size) {
  const DirectConvolutions direct;
  const Variable x(side.activations(size.x), true), w(side.weights(size.w), true),
      b(Tensor::zeros({size.w[0]}, DType::float32, side.device()), true);
  const Variable y = F::conv2d(x, w, b, size.options, /*relu=*/true);
  F::sum(y * Variable(side.activations(y.shape()))).backward();
  return {{"y", y.value()}, {"dx", x.grad()}, {"dw", w.grad()}, {"db", b.grad()}};
}

// Weights that are of the activations' type already.
Results rounded(Side& side, const Shape& filter, std::int64_t pad) {
  const Conv2dOptions options{1, 1, pad, pad, 1, 1, 1};
  const Tensor x = side.activations({2, filter[1], 8, 8}), w = side.activations(filter);
  const Tensor dy = side.activations({2, filter[0], 8, 8});
  return {{"y", side.backend().conv2d(x, w, {}, options)},
          {"dx", side.backend().conv2d_backward_data(dy, w, x.shape(), options)}};
}

// Weights in the backend's own layout.
Results made_weights(Side& side) {
  const Conv2dOptions same{1, 1, 1, 1, 1, 1, 1};
  Backend& backend = side.backend();
  const Tensor w =
      backend.conv2d(side.activations({16, 8, 5, 5}), side.weights({8, 8, 3, 3}), {}, {});
  const Tensor x = side.activations({2, 8, 8, 8}), dy = side.activations({2, 16, 8, 8});
  return {{"y", backend.conv2d(x, w, {}, same)},
          {"dx", backend.conv2d_backward_data(dy, w, x.shape(), same)}};
}

// A backward pass with the weights as the forward pass left them, and images of `inputs` channels
// in the order in which a convolution leaves them.
Results prepared_weights(Side& side, std::int64_t inputs) {
  const Conv2dOptions same{1, 1, 1, 1, 1, 1, 1};
  Backend& backend = side.backend();
  const Tensor x =
      backend.conv2d(side.activations({2, 8, 9, 9}), side.weights({inputs, 8, 3, 3}), {}, same);
  const Tensor w = side.weights({16, inputs, 3, 3}), dy = side.activations({2, 16, 9, 9});
  Tensor prepared;
  const Tensor y = backend.conv2d(x, w, {}, same, &prepared);
  const Tensor dw = side.destination(w.shape(), false);
  backend.conv2d_backward_weights(x, dy, dw, same, false);
  return {
      {"y", y}, {"dx", backend.conv2d_backward_data(dy, prepared, x.shape(), same)}, {"dw", dw}};
}

// Results in a backend's own layout as inputs of every function that takes images.
Results chain(Side& side) {
  const Conv2dOptions same{1, 1, 1, 1, 1, 1, 1};
  const Tensor x = side.activations({4, 8, 10, 10});
  const Tensor w1 = side.weights({16, 8, 3, 3}), w2 = side.weights({12, 16, 3, 3});
  const Tensor w3 = side.weights({10, 12 * 25});
  const Tensor gamma = side.parameters({16}, 0.5f, 1.5f), beta = side.parameters({16});
  const Tensor scores = side.activations({4, 10});
  Backend& backend = side.backend();

  const Tensor a = backend.conv2d(x, w1, {}, same);
  const BatchNormResult norm = backend.batch_norm(a, gamma, beta, 1e-5f, false);
  const Tensor sum = backend.add(norm.y, a);
  const Pool2dOptions halve{PoolKind::average, 2, 2, 2, 2, 0, 0, false};
  std::shared_ptr<Workspace> pooled;
  const Tensor half = backend.pool2d(sum, halve, &pooled);
  const Tensor c = backend.conv2d(half, w2, {}, same);
  const Tensor flat = c.reshape({4, 12 * 25});
  const Tensor y = backend.linear(flat, w3, {}, false);

  const Tensor dc = backend.linear_backward_data(scores, w3).reshape(c.shape());
  const Tensor dw2 = side.destination(w2.shape(), false), db2 = side.destination({12}, false);
  backend.conv2d_backward_weights(half, dc, dw2, same, false);
  backend.backward_bias(c, db2, false);
  const Tensor dhalf = backend.conv2d_backward_data(dc, w2, half.shape(), same);
  const Tensor dsum = backend.pool2d_backward(dhalf, sum.shape(), halve, pooled.get());
  const Tensor dgamma = side.destination({16}, false), dbeta = side.destination({16}, false);
  const Tensor da = backend.batch_norm_backward(a, norm, dsum, gamma, beta, 1e-5f, false, dgamma,
                                                dbeta, false, dsum);
  return {{"y", y},           {"dw2", dw2},
          {"sums of c", db2}, {"dgamma", dgamma},
          {"dbeta", dbeta},   {"da", da},
          {"a", a.clone()},   {"dx", backend.conv2d_backward_data(da, w1, x.shape(), same)}};
}

}  // namespace

void add_convolution_problems(Problems& problems) {
  const std::vector<Size> sizes = {
      {{4, 1, 28, 28}, {20, 1, 3, 3}, {}},  // LeNet's
      {{4, 20, 13, 13}, {50, 20, 5, 5}, {}},
      {{8, 3, 32, 32}, {16, 3, 3, 3}, {1, 1, 1, 1, 1, 1, 1}},  // at the input
      {{2, 64, 8, 8}, {64, 64, 3, 3}, {1, 1, 1, 1, 1, 1, 1}},
      {{2, 32, 16, 16}, {64, 32, 3, 3}, {2, 2, 1, 1, 1, 1, 1}},  // strides
      {{2, 32, 15, 17}, {64, 32, 1, 1}, {2, 1, 0, 0, 1, 1, 1}},
      {{3, 5, 7, 8}, {9, 5, 2, 3}, {1, 1, 1, 1, 1, 1, 1}},  // odd in every way
      {{1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {{2, 8, 12, 12}, {8, 8, 3, 3}, {1, 1, 2, 2, 2, 2, 1}},  // dilation
      {{2, 16, 8, 8}, {32, 4, 3, 3}, {1, 1, 1, 1, 1, 1, 4}},  // groups
      {{2, 16, 8, 8}, {16, 1, 3, 3}, {1, 1, 1, 1, 1, 1, 16}},
      {{1, 3, 64, 64}, {32, 3, 7, 7}, {2, 2, 3, 3, 1, 1, 1}},  // ResNet's stem
      {{8, 8, 40, 40}, {16, 8, 1, 1}, {}},                     // a large bias
      {{0, 3, 8, 8}, {4, 3, 3, 3}, {}},
  };
  for (const Size& size : sizes)
    for (const bool accumulate : {false, true})
      problems.push_back(
          {fmt::format("convolution/{}{}", ConvolutionGeometry(size.x, size.w, size.options).text(),
                       accumulate ? ", added" : ""),
           [=](Side& side) { return convolution(side, size, accumulate); }});
  for (const Size& size : sizes)
    if (size.x.count() > 0)
      problems.push_back({fmt::format("convolution/{}, ReLU",
                                      ConvolutionGeometry(size.x, size.w, size.options).text()),
                          [=](Side& side) { return with_relu(side, size); }});
  problems.push_back({"convolution/chain of layouts", chain});
  problems.push_back({"convolution/weights made by a convolution", made_weights});
  for (const std::int64_t inputs : {16, 12})
    problems.push_back({fmt::format("convolution/prepared weights of {} inputs", inputs),
                        [=](Side& side) { return prepared_weights(side, inputs); }});
  for (const auto& [filter, pad] : {std::pair{Shape{16, 8, 3, 3}, 1}, {Shape{16, 8, 1, 1}, 0}})
    problems.push_back(
        {"convolution/rounded weights of " + filter.text(),
         [=, filter = filter, pad = pad](Side& side) { return rounded(side, filter, pad); }});
}

}  // namespace tasuki::testing
