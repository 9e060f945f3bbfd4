// Gradients of values that both a normalisation and a shortcut use, as in residual blocks: the
// functions of nn/ on the side's device.
#include <functional>

#include "nn/backward.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/normalization.hpp"
#include "problems.hpp"

namespace F = tasuki::functions;

namespace tasuki::testing {
namespace {

struct Norm {
  std::string name;
  Shape shape;            // of x
  std::int64_t channels;  // of gamma and beta
  std::function<Variable(const Variable& x, const Variable& gamma, const Variable& beta)> of;
};

Norm batch_norm(const Shape& shape, bool relu) {
  return {fmt::format("batch_norm of {}{}", shape.text(), relu ? ", relu" : ""), shape, shape[1],
          [relu](const Variable& x, const Variable& gamma, const Variable& beta) {
            return F::batch_norm(x, gamma, beta, 1e-3f, relu);
          }};
}
Norm layer_norm(std::int64_t rows, std::int64_t length) {
  return {fmt::format("layer_norm of {} x {}", rows, length),
          {rows, length},
          length,
          [](const Variable& x, const Variable& gamma, const Variable& beta) {
            return F::layer_norm(x, gamma, beta, 1e-3f);
          }};
}
Norm group_norm(const Shape& shape, std::int64_t groups) {
  return {fmt::format("group_norm of {} in {} groups", shape.text(), groups), shape, shape[1],
          [groups](const Variable& x, const Variable& gamma, const Variable& beta) {
            return F::group_norm(x, groups, gamma, beta, 1e-3f);
          }};
}

// x -> y; gradients of x and of the normalisation's parameters.
Results gradients_of(Side& side, const Norm& norm,
                     const std::function<Variable(const Variable& x, const Variable& gamma,
                                                  const Variable& beta)>& block) {
  const Shape channels = {norm.channels};
  const Variable x(side.coarse_activations(norm.shape, -0.5f, 1.5f), true);
  const Variable gamma(side.parameters(channels, 0.5f, 1.5f), true);
  const Variable beta(side.parameters(channels), true);
  const Variable y = block(x, gamma, beta);
  const Tensor dy = side.activations(y.shape());
  run_backward({&y, 1}, {&dy, 1}, {});
  return {{"dx", x.grad()}, {"dgamma", gamma.grad()}, {"dbeta", beta.grad()}};
}

Results residual(Side& side, const Norm& norm) {
  return gradients_of(side, norm,
                      [&](const Variable& x, const Variable& gamma, const Variable& beta) {
                        return x + norm.of(x, gamma, beta);
                      });
}

// Before the normalisation, after it, and by a second one.
Results used_often(Side& side, const Norm& norm) {
  return gradients_of(
      side, norm, [&](const Variable& x, const Variable& gamma, const Variable& beta) {
        const Variable before = F::leaky_relu(x, 0.5f), first = norm.of(x, gamma, beta);
        return before + first + norm.of(x, gamma, beta) + x;
      });
}

// The convolution's result may lie in memory in another order than the gradient of the shortcut.
Results after_convolution(Side& side, const Norm& norm) {
  const Tensor w = side.weights({norm.channels, norm.channels, 3, 3});
  return gradients_of(side, norm,
                      [&](const Variable& x, const Variable& gamma, const Variable& beta) {
                        const Variable h = F::conv2d(x, Variable(w), {}, {1, 1, 1, 1, 1, 1, 1});
                        return h + norm.of(h, gamma, beta);
                      });
}

}  // namespace

void add_residual_problems(Problems& problems) {
  std::vector<Norm> norms = {layer_norm(1, 1),
                             layer_norm(3, 33),
                             layer_norm(33, 100),
                             layer_norm(100, 3),
                             layer_norm(5, 512),
                             layer_norm(2, 1024),
                             layer_norm(2, 3000),
                             group_norm({1, 6, 5}, 3),
                             group_norm({3, 33, 3, 3}, 11),
                             group_norm({33, 4}, 2),
                             group_norm({2, 100, 1, 1}, 1)};
  for (const bool relu : {false, true})
    for (const Shape& shape : {Shape{33, 1}, Shape{100, 33}, Shape{3, 5, 7, 9}, Shape{4, 100, 3, 3},
                               Shape{33, 3, 1, 1}, Shape{6, 32, 4, 6}})
      norms.push_back(batch_norm(shape, relu));
  for (const Norm& norm : norms) {
    problems.push_back(
        {"residual/" + norm.name, [norm](Side& side) { return residual(side, norm); }});
    problems.push_back({"residual/" + norm.name + ", used often",
                        [norm](Side& side) { return used_often(side, norm); }});
  }
  for (const Norm& norm : {batch_norm({3, 16, 9, 9}, false), group_norm({3, 16, 9, 9}, 4)})
    problems.push_back({"residual/after a convolution/" + norm.name,
                        [norm](Side& side) { return after_convolution(side, norm); }});
}

}  // namespace tasuki::testing
