// Convolutions and pooling against plain loops in double, in all shapes; layouts; algorithms.
#include "tasuki/tensor/cpu/convolution.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tasuki/tensor/backend.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::distance;
using testing::random_tensor;

Backend& cpu() {
  return backend(Device::cpu());
}

struct Problem {
  Shape x, w;
  Conv2dOptions o;
  std::string text() const {
    return fmt::format("{} * {} stride {}x{} pad {}x{} dilation {}x{} groups {}", x.text(),
                       w.text(), o.stride_h, o.stride_w, o.pad_h, o.pad_w, o.dilation_h,
                       o.dilation_w, o.groups);
  }
};

// By definition. Calls visit(y index, x index, w index) for every product.
template <class Visit>
Shape visit_products(const Problem& p, const Visit& visit) {
  const auto& [x, w, o] = p;
  const Shape y = {x[0], w[0],
                   (x[2] + 2 * o.pad_h - o.dilation_h * (w[2] - 1) - 1) / o.stride_h + 1,
                   (x[3] + 2 * o.pad_w - o.dilation_w * (w[3] - 1) - 1) / o.stride_w + 1};
  const std::int64_t per_group = w[0] / o.groups;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t c = 0; c < y[1]; ++c)
      for (std::int64_t i = 0; i < y[2]; ++i)
        for (std::int64_t j = 0; j < y[3]; ++j)
          for (std::int64_t k = 0; k < w[1]; ++k)
            for (std::int64_t a = 0; a < w[2]; ++a)
              for (std::int64_t b = 0; b < w[3]; ++b) {
                const std::int64_t row = i * o.stride_h + a * o.dilation_h - o.pad_h;
                const std::int64_t column = j * o.stride_w + b * o.dilation_w - o.pad_w;
                if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
                const std::int64_t channel = c / per_group * w[1] + k;
                visit(((n * y[1] + c) * y[2] + i) * y[3] + j,
                      ((n * x[1] + channel) * x[2] + row) * x[3] + column,
                      ((c * w[1] + k) * w[2] + a) * w[3] + b);
              }
  return y;
}

void check(const Problem& p, float tolerance) {
  SCOPED_TRACE(p.text());
  const Shape y_shape = visit_products(p, [](auto, auto, auto) {});
  const Tensor x = random_tensor(p.x, 1), w = random_tensor(p.w, 2);
  const Tensor dy = random_tensor(y_shape, 3);
  std::vector<double> y(static_cast<std::size_t>(y_shape.count()));
  std::vector<double> dx(static_cast<std::size_t>(p.x.count()));
  std::vector<double> dw(static_cast<std::size_t>(p.w.count()));
  visit_products(p, [&](std::int64_t yi, std::int64_t xi, std::int64_t wi) {
    const auto xv = static_cast<double>(x.data<float>()[xi]);
    const auto wv = static_cast<double>(w.data<float>()[wi]);
    const auto gv = static_cast<double>(dy.data<float>()[yi]);
    y[static_cast<std::size_t>(yi)] += xv * wv;
    dx[static_cast<std::size_t>(xi)] += gv * wv;
    dw[static_cast<std::size_t>(wi)] += gv * xv;
  });
  const auto expected = [](const std::vector<double>& values, const Shape& shape) {
    return Tensor::from(std::span(values), shape).to(DType::float32);
  };
  EXPECT_LT(distance(cpu().conv2d(x, w, {}, p.o), expected(y, y_shape)), tolerance);
  EXPECT_LT(distance(cpu().conv2d_backward_data(dy, w, p.x, p.o), expected(dx, p.x)), tolerance);
  const Tensor gradient = Tensor::full(p.w, 99);
  cpu().conv2d_backward_weights(x, dy, gradient, p.o, false);
  const Tensor once = expected(dw, p.w);
  EXPECT_LT(distance(gradient, once), tolerance);
  cpu().conv2d_backward_weights(x, dy, gradient, p.o, true);
  EXPECT_LT(distance(gradient, cpu().add(once, once)), tolerance);
}

class Convolution : public ::testing::Test {
 protected:
  ~Convolution() override {
    set_conv_algorithm(ConvAlgorithm::fastest);
    set_cpu_threads(1);
  }
};

TEST_F(Convolution, EveryGeometryByDefinition) {
  set_conv_algorithm(ConvAlgorithm::direct);
  for (const std::int64_t kernel : {1, 2, 3})
    for (const std::int64_t stride : {1, 2})
      check({{2, 3, 7, 8}, {5, 3, kernel, kernel}, {stride, stride, 1, 1, 1, 1, 1}}, 1e-5f);
  check({{2, 1, 7, 8}, {6, 1, 5, 5}, {1, 1, 2, 2, 1, 1, 1}}, 1e-5f);
  check({{2, 16, 9, 7}, {32, 16, 3, 3}, {2, 1, 1, 0, 1, 1, 1}}, 1e-5f);
  check({{1, 4, 9, 9}, {6, 4, 3, 2}, {1, 1, 2, 1, 2, 3, 1}}, 1e-5f);
  check({{2, 8, 6, 6}, {12, 2, 3, 3}, {1, 1, 1, 1, 1, 1, 4}}, 1e-5f);
  check({{2, 32, 6, 6}, {32, 1, 3, 3}, {2, 2, 1, 1, 1, 1, 32}}, 1e-5f);
  check({{1, 1, 1, 1}, {1, 1, 1, 1}, {}}, 1e-5f);
  check({{3, 17, 4, 5}, {33, 17, 1, 1}, {}}, 1e-5f);
}

TEST_F(Convolution, AlgorithmsAgree) {
  for (const ConvAlgorithm algorithm :
       {ConvAlgorithm::direct, ConvAlgorithm::winograd, ConvAlgorithm::fastest}) {
    set_conv_algorithm(algorithm);
    check({{4, 32, 12, 12}, {32, 32, 3, 3}, {1, 1, 1, 1, 1, 1, 1}}, 2e-5f);
    check({{2, 64, 7, 9}, {48, 64, 3, 3}, {1, 1, 1, 1, 1, 1, 1}}, 2e-5f);
  }
}

TEST_F(Convolution, OneAndTwoThreadsAgree) {
  const Tensor x = random_tensor({8, 32, 12, 12}, 1), w = random_tensor({32, 32, 3, 3}, 2);
  const Conv2dOptions same{1, 1, 1, 1, 1, 1, 1};
  const Tensor dw[2] = {Tensor::empty(w.shape()), Tensor::empty(w.shape())};
  Tensor y[2], dx[2];
  for (int i = 0; i < 2; ++i) {
    set_cpu_threads(i + 1);
    y[i] = cpu().conv2d(x, w, {}, same);
    dx[i] = cpu().conv2d_backward_data(x, w, x.shape(), same);
    cpu().conv2d_backward_weights(x, x, dw[i], same, false);
  }
  EXPECT_LT(distance(y[1], y[0]), 1e-5f);
  EXPECT_LT(distance(dx[1], dx[0]), 1e-5f);
  EXPECT_LT(distance(dw[1], dw[0]), 1e-5f);
}

// Results stay in oneDNN's order from layer to layer, and every function accepts them.
TEST_F(Convolution, BlockedLayoutsRoundTrip) {
  const Tensor x = random_tensor({2, 16, 8, 8}, 1), w = random_tensor({24, 16, 3, 3}, 2);
  const Conv2dOptions same{1, 1, 1, 1, 1, 1, 1};
  const Tensor blocked = cpu().conv2d(x, w, {}, same);
  const Tensor plain = blocked.plain();
  EXPECT_TRUE(plain.is_plain());
  if (!blocked.is_plain()) {
    EXPECT_THROW(blocked.data<float>(), Error);
  }
  EXPECT_EQ(distance(blocked, plain), 0);

  EXPECT_EQ(distance(cpu().unary(Unary::relu, blocked, 0), cpu().unary(Unary::relu, plain, 0)), 0);
  EXPECT_LT(
      distance(cpu().unary(Unary::sigmoid, blocked, 0), cpu().unary(Unary::sigmoid, plain, 0)),
      1e-6f);
  EXPECT_EQ(distance(cpu().unary_backward(Unary::relu, blocked, plain, 0),
                     cpu().unary_backward(Unary::relu, plain, blocked, 0)),
            0);
  EXPECT_EQ(distance(cpu().add(blocked, plain), cpu().add(plain, blocked)), 0);
  EXPECT_EQ(distance(blocked.reshape({2, 24 * 64}), plain.reshape({2, 24 * 64})), 0);
  EXPECT_EQ(distance(blocked.clone(), plain), 0);
  EXPECT_EQ(distance(blocked.to(DType::float64).to(DType::float32), plain), 0);
  Pool2dOptions pool;
  EXPECT_EQ(distance(cpu().pool2d(blocked, pool, nullptr), cpu().pool2d(plain, pool, nullptr)), 0);
  const Tensor bias[2] = {Tensor::full({24}, 1), Tensor::full({24}, 1)};
  for (const bool accumulate : {false, true}) {
    cpu().backward_bias(blocked, bias[0], accumulate);
    cpu().backward_bias(plain, bias[1], accumulate);
    EXPECT_LT(distance(bias[0], bias[1]), 1e-5f);
  }
  const Tensor w2 = random_tensor({8, 24, 3, 3}, 3);
  EXPECT_LT(distance(cpu().conv2d(blocked, w2, {}, same), cpu().conv2d(plain, w2, {}, same)),
            1e-5f);
  blocked.fill(0.5);
  EXPECT_EQ(distance(blocked, Tensor::full(blocked.shape(), 0.5)), 0);
}

// Channels that do not fill a block: what pads it must never leak into results.
TEST_F(Convolution, PaddedBlocksStayZero) {
  const Tensor x = random_tensor({2, 16, 6, 6}, 1), w = random_tensor({10, 16, 3, 3}, 2);
  const Tensor y = cpu().conv2d(x, w, {}, {});
  const Tensor bias[2] = {Tensor::empty({10}), Tensor::empty({10})};
  cpu().backward_bias(y, bias[0], false);
  cpu().backward_bias(y.plain(), bias[1], false);
  EXPECT_LT(distance(bias[0], bias[1]), 1e-5f);
  const Tensor bent = cpu().unary(Unary::sigmoid, y, 0);
  const Tensor w2 = random_tensor({5, 10, 1, 1}, 3);
  EXPECT_LT(distance(cpu().conv2d(bent, w2, {}, {}), cpu().conv2d(bent.plain(), w2, {}, {})),
            1e-5f);
}

TEST_F(Convolution, EmptyBatch) {
  const Tensor x = Tensor::empty({0, 3, 8, 8}), w = random_tensor({4, 3, 3, 3}, 1);
  const Tensor y = cpu().conv2d(x, w, {}, {});
  EXPECT_EQ(y.shape(), (Shape{0, 4, 6, 6}));
  EXPECT_EQ(cpu().conv2d_backward_data(y, w, x.shape(), {}).shape(), x.shape());
  const Tensor dw = Tensor::full(w.shape(), 3);
  cpu().conv2d_backward_weights(x, y, dw, {}, true);
  EXPECT_EQ(dw.data<float>()[0], 3);
  cpu().conv2d_backward_weights(x, y, dw, {}, false);
  EXPECT_EQ(distance(dw, Tensor::zeros(w.shape())), 0);
}

TEST_F(Convolution, ErrorsNameTheShapes) {
  const Tensor x = Tensor::zeros({2, 3, 8, 8});
  const auto message = [&](const Shape& w, const Conv2dOptions& o) {
    try {
      cpu().conv2d(x, Tensor::zeros(w), {}, o);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message({4, 2, 3, 3}, {}).find("2x3x8x8 with 4x2x3x3"), std::string::npos);
  EXPECT_NE(message({4, 3, 9, 9}, {}).find("larger than the padded image"), std::string::npos);
  EXPECT_NE(message({4, 3, 3, 3}, {0, 1, 0, 0, 1, 1, 1}).find("impossible"), std::string::npos);
  EXPECT_NE(message({4, 3}, {}).find("four axes"), std::string::npos);
  EXPECT_THROW(cpu().conv2d(x, Tensor::zeros({4, 3, 3, 3}), Tensor::zeros({5}), {}), Error);
  EXPECT_THROW(cpu().conv2d_backward_data(Tensor::zeros({2, 4, 5, 6}), Tensor::zeros({4, 3, 3, 3}),
                                          x.shape(), {}),
               Error);
}

TEST(Pooling, NumberOfWindows) {
  const auto size = [](std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                       bool cover_all) {
    const Pool2dOptions o{PoolKind::max, kernel, kernel, stride, stride, pad, pad, cover_all};
    return cpu().pool2d(random_tensor({1, 1, in, in}, 1), o, nullptr).shape()[2];
  };
  EXPECT_EQ(size(7, 2, 2, 0, false), 3);
  EXPECT_EQ(size(7, 2, 2, 0, true), 4);
  EXPECT_EQ(size(8, 3, 2, 1, false), 4);
  EXPECT_EQ(size(8, 3, 2, 1, true), 5);
  EXPECT_EQ(size(4, 1, 2, 0, true), 2) << "a window that begins beyond the edge does not count";
}

TEST(Pooling, ImpossibleSettingsAreErrors) {
  const Tensor x = Tensor::zeros({1, 1, 4, 4});
  EXPECT_THROW(cpu().pool2d(x, {PoolKind::max, 5, 5, 1, 1, 0, 0, false}, nullptr), Error);
  EXPECT_THROW(cpu().pool2d(x, {PoolKind::max, 2, 2, 0, 1, 0, 0, false}, nullptr), Error);
  EXPECT_THROW(cpu().pool2d(x, {PoolKind::max, 2, 2, 1, 1, 2, 2, false}, nullptr), Error);
  EXPECT_THROW(cpu().pool2d(x, {PoolKind::average, 2, 2, 2, 2, 0, 0, true}, nullptr), Error);
  EXPECT_THROW(cpu().pool2d(Tensor::zeros({4, 4}), {}, nullptr), Error);
  EXPECT_EQ(cpu().pool2d(Tensor::zeros({0, 1, 4, 4}), {}, nullptr).shape(), (Shape{0, 1, 2, 2}));
}

}  // namespace
}  // namespace tasuki
