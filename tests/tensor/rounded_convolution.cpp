#include "rounded_convolution.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#include "tensor/backend.hpp"
#include "values.hpp"

namespace tasuki::testing {

void check_definition(const OwnConvolution& convolution, const ConvolutionProblem& p) {
  SCOPED_TRACE(p.text());
  const ConvolutionGeometry geometry(p.x, p.w, p.o);
  const Shape& y_shape = geometry.y;
  const auto rounded = [](const Shape& shape, std::uint64_t seed) {
    return random_tensor(shape, seed).to(DType::bfloat16);
  };
  const Tensor x = rounded(p.x, 1), w = rounded(p.w, 2), dy = rounded(y_shape, 3);
  const Tensor bias = random_tensor({p.w[0]}, 4);
  const Tensor exact_x = x.to(DType::float32), exact_w = w.to(DType::float32),
               exact_dy = dy.to(DType::float32);
  std::vector<double> y(static_cast<std::size_t>(y_shape.count())),
      dx(static_cast<std::size_t>(p.x.count())), dw(static_cast<std::size_t>(p.w.count()));
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = static_cast<double>(
        bias.data<float>()[static_cast<std::int64_t>(i) / (y_shape[2] * y_shape[3]) % p.w[0]]);
  visit_products(p, [&](std::int64_t yi, std::int64_t xi, std::int64_t wi) {
    const auto xv = static_cast<double>(exact_x.data<float>()[xi]);
    const auto wv = static_cast<double>(exact_w.data<float>()[wi]);
    const auto gv = static_cast<double>(exact_dy.data<float>()[yi]);
    y[static_cast<std::size_t>(yi)] += xv * wv;
    dx[static_cast<std::size_t>(xi)] += gv * wv;
    dw[static_cast<std::size_t>(wi)] += gv * xv;
  });
  const auto expected = [](const std::vector<double>& values, const Shape& shape) {
    return Tensor::from(std::span(values), shape).to(DType::float32);
  };
  const auto results = [&](int threads) {
    set_cpu_threads(threads);
    return std::array{convolution.forward(geometry, x, w, bias).plain().to(DType::float32),
                      convolution.backward_data(geometry, dy, w).plain().to(DType::float32),
                      convolution.backward_weights(geometry, x, dy)};
  };
  const auto found = results(1);
  EXPECT_LT(distance(found[0], expected(y, y_shape)), 0x1p-8f);
  EXPECT_LT(distance(found[1], expected(dx, p.x)), 0x1p-8f);
  EXPECT_LT(distance(found[2], expected(dw, p.w)), 1e-5f);
  for (const int threads : {2, 3}) {
    const auto again = results(threads);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(distance(again[i], found[i]), 0) << threads << " threads, result " << i;
  }
  set_cpu_threads(1);
}

}  // namespace tasuki::testing
