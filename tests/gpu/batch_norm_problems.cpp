#include <array>

#include "problems.hpp"

namespace tasuki::testing {
namespace {

constexpr float eps = 2e-5f;

Results batch_norm(Side& side, const Shape& shape, bool relu, bool accumulate, bool residual) {
  const Shape channels{shape[1]};
  // Means near 0 would be differences of rounded numbers, relatively.
  const Tensor x = side.coarse_activations(shape, -0.5f, 1.5f);
  const Tensor dy = side.activations(shape);
  const Tensor gamma = side.parameters(channels, 0.5f, 1.5f), beta = side.parameters(channels);
  const Tensor dgamma = side.destination(channels, accumulate);
  const Tensor dbeta = side.destination(channels, accumulate);
  Backend& backend = side.backend();
  const BatchNormResult forward = backend.batch_norm(x, gamma, beta, eps, relu);
  const Tensor dx =
      backend.batch_norm_backward(x, forward, dy, gamma, beta, eps, relu, dgamma, dbeta, accumulate,
                                  residual ? side.activations(shape) : Tensor());
  return {{"y", forward.y}, {"mean", forward.mean}, {"variance", forward.variance},
          {"dx", dx},       {"dgamma", dgamma},     {"dbeta", dbeta}};
}

// As if `other` had the values of another rank.
Results in_parts(Side& side, const Shape& shape, const Shape& other, bool relu, bool residual) {
  const Shape channels{shape[1]};
  const Tensor x = side.coarse_activations(shape, -0.5f, 1.5f);
  const Tensor dy = side.activations(shape);
  const Tensor gamma = side.parameters(channels, 0.5f, 1.5f), beta = side.parameters(channels);
  const BatchNormAverages averages{side.parameters(channels), side.parameters(channels, 0.5f, 1),
                                   0.75f};
  Backend& backend = side.backend();
  Tensor sums = backend.batch_norm_sums(x).to(Device::cpu());
  const Tensor others =
      backend.batch_norm_sums(side.activations(other, -1.5f, 0.5f)).to(Device::cpu());
  for (std::int64_t i = 0; i < sums.count(); ++i)
    sums.data<double>()[i] += others.data<double>()[i];
  sums = sums.to(side.device());
  const BatchNormResult forward =
      backend.batch_norm_by_sums(x, gamma, beta, sums, eps, relu, averages);
  const BatchNormGradientSums own =
      backend.batch_norm_gradient_sums(x, forward, dy, gamma, beta, eps, relu);
  const Tensor all = own.sums.clone();
  backend.accumulate(all, side.parameters(all.shape()), 1);
  const Tensor dx = backend.batch_norm_gradient(x, forward, dy, gamma, beta, eps, relu, own, all,
                                                residual ? side.activations(shape) : Tensor());
  return {{"y", forward.y},
          {"mean", forward.mean},
          {"variance", forward.variance},
          {"average mean", averages.mean},
          {"average variance", averages.variance},
          {"gradient sums", all},
          {"dx", dx}};
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
       {Shape{16, 64, 8, 8}, Shape{3, 5, 7, 9}, Shape{100, 30}, Shape{300, 264}, Shape{7, 3, 1, 1},
        Shape{64, 8, 1, 1}, Shape{128, 160, 4, 4}, Shape{8, 12, 40, 40}, Shape{20, 600, 2, 2}})
    for (const bool relu : {false, true})
      for (const auto& [accumulate, residual] :
           {std::pair{false, false}, std::pair{true, false}, std::pair{false, true}})
        problems.push_back({fmt::format("batch_norm/{}{}{}{}", shape.text(), relu ? ", relu" : "",
                                        accumulate ? ", added" : "", residual ? ", residual" : ""),
                            [=, accumulate = accumulate, residual = residual](Side& side) {
                              return batch_norm(side, shape, relu, accumulate, residual);
                            }});
  const std::array<std::pair<Shape, Shape>, 5> shares = {{{{16, 64, 8, 8}, {3, 64, 8, 8}},
                                                          {{3, 5, 7, 9}, {0, 5, 7, 9}},
                                                          {{0, 5, 7, 9}, {3, 5, 7, 9}},
                                                          {{0, 30}, {0, 30}},
                                                          {{100, 30}, {4, 30}}}};
  for (const auto& [shape, other] : shares)
    for (const bool relu : {false, true})
      for (const bool residual : {false, true})
        problems.push_back(
            {fmt::format("batch_norm in parts/{} and {}{}{}", shape.text(), other.text(),
                         relu ? ", relu" : "", residual ? ", residual" : ""),
             [=, shape = shape, other = other](Side& side) {
               return in_parts(side, shape, other, relu, residual);
             }});
  for (const Shape& shape : {Shape{4, 5, 7, 9}, Shape{6, 32}, Shape{0, 4, 3, 3}})
    for (const bool relu : {false, true})
      problems.push_back(
          {fmt::format("batch_norm_inference/{}{}", shape.text(), relu ? ", relu" : ""),
           [=](Side& side) { return inference(side, shape, relu); }});
}

}  // namespace tasuki::testing
