#include "problems.hpp"

namespace tasuki::testing {
namespace {

constexpr float eps = 2e-5f;

Results batch_norm(Side& side, const Shape& shape, bool relu, bool accumulate) {
  const Shape channels{shape[1]};
  // Means near 0 would be differences of rounded numbers, relatively.
  const Tensor x = side.activations(shape, -0.5f, 1.5f), dy = side.activations(shape);
  const Tensor gamma = side.parameters(channels, 0.5f, 1.5f), beta = side.parameters(channels);
  const Tensor dgamma = side.destination(channels, accumulate);
  const Tensor dbeta = side.destination(channels, accumulate);
  Backend& backend = side.backend();
  const BatchNormResult forward = backend.batch_norm(x, gamma, beta, eps, relu);
  const Tensor dx = backend.batch_norm_backward(x, forward, dy, gamma, beta, eps, relu, dgamma,
                                                dbeta, accumulate);
  return {{"y", forward.y}, {"mean", forward.mean}, {"variance", forward.variance},
          {"dx", dx},       {"dgamma", dgamma},     {"dbeta", dbeta}};
}

Results inference(Side& side, const Shape& shape, bool relu) {
  const Shape channels{shape[1]};
  const Tensor x = side.activations(shape);
  const Tensor gamma = side.parameters(channels), beta = side.parameters(channels);
  const Tensor mean = side.parameters(channels), variance = side.parameters(channels, 0.1f, 2);
  return {{"y", side.backend().batch_norm_inference(x, gamma, beta, mean, variance, eps, relu)}};
}

}  // namespace

void add_batch_norm_problems(Problems& problems) {
  for (const Shape& shape :
       {Shape{16, 64, 8, 8}, Shape{3, 5, 7, 9}, Shape{100, 30}, Shape{7, 3, 1, 1},
        Shape{64, 8, 1, 1}, Shape{128, 160, 4, 4}, Shape{8, 12, 40, 40}, Shape{20, 600, 2, 2}})
    for (const bool relu : {false, true})
      for (const bool accumulate : {false, true})
        problems.push_back({fmt::format("batch_norm/{}{}{}", shape.text(), relu ? ", relu" : "",
                                        accumulate ? ", added" : ""),
                            [=](Side& side) { return batch_norm(side, shape, relu, accumulate); }});
  for (const Shape& shape : {Shape{4, 5, 7, 9}, Shape{6, 32}, Shape{0, 4, 3, 3}})
    for (const bool relu : {false, true})
      problems.push_back(
          {fmt::format("batch_norm_inference/{}{}", shape.text(), relu ? ", relu" : ""),
           [=](Side& side) { return inference(side, shape, relu); }});
}

}  // namespace tasuki::testing
