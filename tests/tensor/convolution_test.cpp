// Convolutions and pooling against plain loops in double, in all shapes; layouts; algorithms.
#include "tensor/conv_algorithm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "tensor/backend.hpp"
#include "tensor/cpu/interleaved.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/image_operations.hpp"
#include "tests/support/convolution_definition.hpp"
#include "tests/support/orders.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using Problem = testing::ConvolutionProblem;
using testing::cpu;
using testing::distance;
using testing::random_tensor;
using testing::result_of;
using testing::visit_products;

void check(const Problem& p, float tolerance) {
  SCOPED_TRACE(p.text());
  const Shape y_shape = result_of(p);
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

class ConvolutionGeometryTest : public Convolution,
                                public ::testing::WithParamInterface<ConvAlgorithm> {};

TEST_P(ConvolutionGeometryTest, MatchesItsDefinition) {
  set_conv_algorithm(GetParam());
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
  // More images than one block, and a last one that is not full.
  check({{37, 5, 6, 7}, {13, 5, 3, 2}, {2, 1, 1, 1, 1, 2, 1}}, 1e-5f);
}

INSTANTIATE_TEST_SUITE_P(, ConvolutionGeometryTest,
                         ::testing::Values(ConvAlgorithm::direct, ConvAlgorithm::interleaved));

TEST_F(Convolution, AlgorithmsAgree) {
  for (const ConvAlgorithm algorithm : {ConvAlgorithm::direct, ConvAlgorithm::winograd,
                                        ConvAlgorithm::interleaved, ConvAlgorithm::fastest}) {
    set_conv_algorithm(algorithm);
    check({{32, 20, 7, 7}, {10, 20, 5, 5}, {}}, 2e-5f);
    check({{4, 32, 12, 12}, {32, 32, 3, 3}, {1, 1, 1, 1, 1, 1, 1}}, 2e-5f);
    check({{2, 64, 7, 9}, {48, 64, 3, 3}, {1, 1, 1, 1, 1, 1, 1}}, 2e-5f);
  }
}

TEST_F(Convolution, ReusesFiltersPreparedByTheOtherPass) {
  const Conv2dOptions padded{1, 1, 1, 1, 1, 1, 1}, grouped{1, 1, 1, 1, 1, 1, 2};
  for (const Conv2dOptions& options : {padded, grouped}) {
    const Tensor x = random_tensor({4, 32, 12, 12}, 1);
    const Tensor w = random_tensor({32, 32 / options.groups, 3, 3}, 2);
    for (const ConvAlgorithm forward : {ConvAlgorithm::direct, ConvAlgorithm::winograd,
                                        ConvAlgorithm::interleaved, ConvAlgorithm::fastest})
      for (const ConvAlgorithm backward :
           {ConvAlgorithm::direct, ConvAlgorithm::winograd, ConvAlgorithm::interleaved}) {
        Tensor prepared;
        set_conv_algorithm(forward);
        const Tensor y = cpu().conv2d(x, w, {}, options, &prepared);
        // Otherwise this test would check nothing.
        EXPECT_TRUE(forward != ConvAlgorithm::direct || options.groups > 1 || !prepared.is_plain());
        set_conv_algorithm(backward);
        const Tensor expected = cpu().conv2d_backward_data(y, w, x.shape(), options);
        const Tensor dx = cpu().conv2d_backward_data(y, prepared, x.shape(), options);
        EXPECT_EQ(distance(dx, expected), 0);
      }
  }
}

TEST_F(Convolution, InterleavedSumsDoNotDependOnThreadCount) {
  set_conv_algorithm(ConvAlgorithm::interleaved);
  const Tensor x = random_tensor({40, 9, 6, 6}, 1), w = random_tensor({26, 9, 3, 3}, 2);
  const Tensor dw[2] = {Tensor::empty(w.shape()), Tensor::empty(w.shape())};
  Tensor y[2], dx[2];
  for (int i = 0; i < 2; ++i) {
    set_cpu_threads(2 * i + 1);
    y[i] = cpu().conv2d(x, w, {}, {});
    dx[i] = cpu().conv2d_backward_data(y[i], w, x.shape(), {});
    cpu().conv2d_backward_weights(x, y[i], dw[i], {}, false);
  }
  EXPECT_EQ(distance(y[1], y[0]), 0);
  EXPECT_EQ(distance(dx[1], dx[0]), 0);
  EXPECT_EQ(distance(dw[1], dw[0]), 0);
}

TEST_F(Convolution, AgreesForOneAndTwoThreads) {
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

// What padding a layout has must be zeros, and stay so: sums over it would show what leaks in.
void check_bias_gradient(const Tensor& dy, const Tensor& plain) {
  const Shape channels = {dy.shape()[1]};
  const Tensor bias[2] = {Tensor::full(channels, 1), Tensor::full(channels, 1)};
  for (const bool accumulate : {false, true}) {
    cpu().backward_bias(dy, bias[0], accumulate);
    cpu().backward_bias(plain, bias[1], accumulate);
    EXPECT_LT(distance(bias[0], bias[1]), 1e-5f);
  }
}

void check_pooling(const Tensor& x, const Tensor& plain) {
  for (const PoolKind kind : {PoolKind::max, PoolKind::average})
    for (const auto& [window, stride, pad] : {std::tuple{2, 2, 0}, {2, 2, 1}, {3, 1, 1}, {2, 3, 0}})
      for (const bool relu : {false, true}) {
        SCOPED_TRACE(
            fmt::format("window {} stride {} padding {} relu {}", window, stride, pad, relu));
        const Pool2dOptions o{kind, window, window, stride, stride, pad, pad, false};
        std::shared_ptr<Workspace> kept[2];
        Tensor y[2], dx[2];
        for (int i = 0; i < 2; ++i) {
          // In two passes over a plain tensor: what the other is to equal.
          const Tensor positive = cpu().unary(Unary::relu, plain, 0);
          const bool fused = relu && i == 0;
          const Tensor& from = i == 0 ? x : relu ? positive : plain;
          y[i] = fused ? cpu().relu_pool2d(from, o, &kept[i]) : cpu().pool2d(from, o, &kept[i]);
          const Tensor dy = random_tensor(y[i].shape(), 5);
          dx[i] = fused ? cpu().relu_pool2d_backward(dy, x.shape(), o, kept[i].get())
                        : cpu().pool2d_backward(dy, x.shape(), o, kept[i].get());
          if (relu && !fused) dx[i] = cpu().unary_backward(Unary::relu, positive, dx[i], 0);
        }
        EXPECT_LT(distance(y[0], y[1]), 1e-6f);
        EXPECT_LT(distance(dx[0], dx[1]), 1e-6f);
        check_bias_gradient(y[0], y[1].plain());
        check_bias_gradient(dx[0], dx[1].plain());
      }
}

void check_batch_norm(const Tensor& x, const Tensor& plain) {
  const Shape channels = {x.shape()[1]};
  const Tensor gamma = random_tensor(channels, 6), beta = random_tensor(channels, 7);
  const Tensor dy = random_tensor(x.shape(), 8);
  Tensor y[2], at_rest[2], dx[2], dgamma[2], dbeta[2];
  for (int i = 0; i < 2; ++i) {
    const Tensor& from = i == 0 ? x : plain;
    const BatchNormResult result = cpu().batch_norm(from, gamma, beta, 1e-5f, true);
    y[i] = result.y;
    at_rest[i] = cpu().batch_norm_inference(from, gamma, beta, beta, gamma, 2.0f, false);
    dgamma[i] = Tensor::empty(channels), dbeta[i] = Tensor::empty(channels);
    dx[i] = cpu().batch_norm_backward(from, result, dy, gamma, beta, 1e-5f, true, dgamma[i],
                                      dbeta[i], false);
  }
  for (const auto* results : {y, at_rest, dx, dgamma, dbeta})
    EXPECT_LT(distance(results[0], results[1]), 1e-5f);
}

// Results stay in the order that suits the convolution from layer to layer, and every function
// accepts them. `y`: 24 channels of 8 x 8.
void check_that_functions_accept(const Tensor& y) {
  const Tensor plain = y.plain();
  EXPECT_TRUE(plain.is_plain());
  if (!y.is_plain()) {
    EXPECT_THROW(y.data<float>(), Error);
  }
  EXPECT_EQ(distance(y, plain), 0);

  EXPECT_EQ(distance(cpu().unary(Unary::relu, y, 0), cpu().unary(Unary::relu, plain, 0)), 0);
  EXPECT_LT(distance(cpu().unary(Unary::sigmoid, y, 0), cpu().unary(Unary::sigmoid, plain, 0)),
            1e-6f);
  EXPECT_EQ(distance(cpu().unary_backward(Unary::relu, y, plain, 0),
                     cpu().unary_backward(Unary::relu, plain, y, 0)),
            0);
  EXPECT_EQ(distance(cpu().add(y, plain), cpu().add(plain, y)), 0);
  const Shape flat = {y.shape()[0], 24 * 64};
  EXPECT_EQ(distance(y.reshape(flat), plain.reshape(flat)), 0);
  EXPECT_EQ(distance(y.clone(), plain), 0);
  EXPECT_EQ(distance(y.to(DType::float64).to(DType::float32), plain), 0);
  check_bias_gradient(y, plain);
  check_pooling(y, plain);
  check_batch_norm(y, plain);
  const Conv2dOptions same{1, 1, 1, 1, 1, 1, 1};
  const Tensor w = random_tensor({8, 24, 3, 3}, 3);
  EXPECT_LT(distance(cpu().conv2d(y, w, {}, same), cpu().conv2d(plain, w, {}, same)), 1e-5f);
  y.fill(0.5);
  EXPECT_EQ(distance(y, Tensor::full(y.shape(), 0.5)), 0);
}

TEST_F(Convolution, BlockedLayoutsRoundTrip) {
  const Tensor x = random_tensor({2, 16, 8, 8}, 1), w = random_tensor({24, 16, 3, 3}, 2);
  check_that_functions_accept(cpu().conv2d(x, w, {}, {1, 1, 1, 1, 1, 1, 1}));
}

// A block that is full and one that is not; the bias reaches into what fills it up.
TEST_F(Convolution, InterleavedImagesRoundTrip) {
  set_conv_algorithm(ConvAlgorithm::interleaved);
  const Tensor x = random_tensor({18, 3, 8, 8}, 1), w = random_tensor({24, 3, 3, 3}, 2);
  const Tensor y = cpu().conv2d(x, w, random_tensor({24}, 4), {1, 1, 1, 1, 1, 1, 1});
  EXPECT_TRUE(is_interleaved(y));
  set_conv_algorithm(ConvAlgorithm::direct);
  check_that_functions_accept(y);
}

TEST_F(Convolution, InterleavesImagesInsteadOfPaddingChannels) {
  const auto may_pay = [](const Shape& x, const Shape& w, std::int64_t groups = 1) {
    return interleaving_may_pay({x, w, {1, 1, 0, 0, 1, 1, groups}});
  };
  EXPECT_TRUE(may_pay({256, 1, 28, 28}, {20, 1, 3, 3}));
  EXPECT_TRUE(may_pay({256, 20, 13, 13}, {50, 20, 5, 5}));
  EXPECT_FALSE(may_pay({8, 20, 13, 13}, {50, 20, 5, 5})) << "half a block of images";
  EXPECT_FALSE(may_pay({128, 3, 32, 32}, {64, 3, 3, 3}));
  EXPECT_FALSE(may_pay({128, 64, 32, 32}, {64, 64, 3, 3}));
  EXPECT_FALSE(may_pay({64, 20, 9, 9}, {10, 10, 3, 3}, 2)) << "groups";
}

// LeNet's: the batch that fills no block is the last of an epoch.
TEST_F(Convolution, AddsBiases) {
  for (const ConvAlgorithm algorithm : {ConvAlgorithm::direct, ConvAlgorithm::interleaved})
    for (const std::int64_t images : {1, 16, 35}) {
      set_conv_algorithm(algorithm);
      const Tensor x = random_tensor({images, 4, 6, 6}, 1), w = random_tensor({7, 4, 5, 5}, 2);
      const Tensor b = random_tensor({7}, 3);
      const Tensor y = cpu().conv2d(x, w, b, {}), without = cpu().conv2d(x, w, {}, {});
      const Tensor difference = y.plain().clone();
      cpu().accumulate(difference, without.plain(), -1);
      for (std::int64_t i = 0; i < difference.count(); ++i)
        EXPECT_NEAR(difference.data<float>()[i], b.data<float>()[i / 4 % 7], 1e-5);
    }
}

TEST_F(Convolution, TakesBiasesOfTheTypeOfImages) {
  for (const DType type : {DType::bfloat16, DType::float16}) {
    const Tensor x = random_tensor({2, 4, 6, 6}, 1).to(type), w = random_tensor({7, 4, 5, 5}, 2);
    const Tensor b = random_tensor({7}, 3).to(type), wide = b.to(DType::float32);
    EXPECT_EQ(distance(cpu().conv2d(x, w, b, {}), cpu().conv2d(x, w, wide, {})), 0);
    const Tensor y = random_tensor({2, 7, 3, 3}, 4).to(type), again = y.clone();
    cpu().images().add_bias(y, b);
    cpu().images().add_bias(again, wide);
    EXPECT_EQ(distance(y, again), 0);
  }
}

TEST_F(Convolution, AddsBiasesInEveryOrder) {
  for (const Shape& shape : {Shape{3, 6, 4, 5}, Shape{16, 16, 1, 3}})
    for (const testing::Order& order : testing::every_order) {
      SCOPED_TRACE(order.name);
      const Tensor plain = random_tensor(shape, 1), b = random_tensor({shape[1]}, 2);
      const Tensor y = testing::in_order(plain, order);
      cpu().images().add_bias(y, b);
      cpu().images().add_bias(plain, b);
      EXPECT_EQ(distance(y, plain), 0);
      check_bias_gradient(y, plain);
    }
}

// Channels that do not fill a block: what pads it must never leak into results.
TEST_F(Convolution, KeepsPaddingZero) {
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

TEST_F(Convolution, AcceptsEmptyBatches) {
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

TEST(Pooling, CountsWindows) {
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

  // What the header says, window by window.
  for (const std::int64_t in : {1, 2, 3, 5, 8, 11})
    for (const std::int64_t kernel : {1, 2, 3, 4})
      for (const std::int64_t stride : {1, 2, 3, 5})
        for (std::int64_t pad = 0; pad < kernel; ++pad) {
          if (kernel > in + 2 * pad) continue;
          std::int64_t within = 0;
          while (within * stride - pad + kernel <= in + pad) ++within;
          const bool leaves_a_rest = (in + 2 * pad - kernel) % stride != 0;
          const bool begins_inside = within * stride - pad < in;
          EXPECT_EQ(size(in, kernel, stride, pad, false), within);
          EXPECT_EQ(size(in, kernel, stride, pad, true),
                    within + (leaves_a_rest && begins_inside ? 1 : 0))
              << in << ", window " << kernel << ", stride " << stride << ", padding " << pad;
        }
}

TEST(Pooling, RejectsImpossibleSettings) {
  const Tensor x = Tensor::zeros({1, 1, 4, 4});
  EXPECT_THROW(cpu().pool2d(x, {PoolKind::max, 5, 5, 1, 1, 0, 0, false}, nullptr), Error);
  EXPECT_THROW(cpu().pool2d(x, {PoolKind::max, 2, 2, 0, 1, 0, 0, false}, nullptr), Error);
  EXPECT_THROW(cpu().pool2d(x, {PoolKind::max, 2, 2, 1, 1, 2, 2, false}, nullptr), Error);
  EXPECT_THROW(cpu().pool2d(x, {PoolKind::average, 2, 2, 2, 2, 0, 0, true}, nullptr), Error);
  EXPECT_THROW(cpu().pool2d(Tensor::zeros({4, 4}), {}, nullptr), Error);
  EXPECT_EQ(cpu().pool2d(Tensor::zeros({0, 1, 4, 4}), {}, nullptr).shape(), (Shape{0, 1, 2, 2}));
}

class WinogradInBfloat16 : public Convolution {
 protected:
  void SetUp() override {
    if (!has_bfloat16_products()) GTEST_SKIP() << "products of bfloat16 need AVX512_BF16 or AMX";
  }

  struct Case {
    std::int64_t images, in, out, height, width, pad = 1;
  };

  // y, dx and dw of images and filters that bfloat16 has exactly.
  static std::vector<Tensor> results(const Case& c, ConvAlgorithm algorithm, DType type,
                                     int threads = 1) {
    const Conv2dOptions options{1, 1, c.pad, c.pad, 1, 1, 1};
    const auto values = [&](const Shape& shape, std::uint64_t seed) {
      return random_tensor(shape, seed).to(DType::bfloat16).to(type);
    };
    const std::int64_t shrink = 2 - 2 * c.pad;
    const Tensor x = values({c.images, c.in, c.height, c.width}, 1),
                 w = values({c.out, c.in, 3, 3}, 2),
                 dy = values({c.images, c.out, c.height - shrink, c.width - shrink}, 3),
                 dw = Tensor::empty(w.shape());
    set_cpu_threads(threads);
    set_conv_algorithm(algorithm);
    cpu().conv2d_backward_weights(x, dy, dw, options, false);
    return {cpu().conv2d(x, w, {}, options), cpu().conv2d_backward_data(dy, w, x.shape(), options),
            dw};
  }
};

// Relative to the largest result: what rounding of results leaves, and what that of transformed
// tiles and filters adds.
TEST_F(WinogradInBfloat16, RoundsAFewTimesAsMuch) {
  for (const Case& c : {Case{20, 64, 48, 15, 16}, Case{3, 16, 80, 33, 33}, Case{40, 48, 16, 5, 1},
                        Case{64, 32, 32, 1, 3}, Case{9, 112, 64, 8, 9, 0}, Case{2, 32, 16, 7, 7, 2},
                        Case{1, 16, 16, 1, 1}}) {
    SCOPED_TRACE(fmt::format("{} images, {} to {} channels, {}x{}, padding {}", c.images, c.in,
                             c.out, c.height, c.width, c.pad));
    const auto exact = results(c, ConvAlgorithm::direct, DType::float32),
               direct = results(c, ConvAlgorithm::direct, DType::bfloat16),
               winograd = results(c, ConvAlgorithm::winograd, DType::bfloat16);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_LT(distance(direct[i], exact[i]), 0x1p-8f);
      EXPECT_LT(distance(winograd[i], exact[i]), 0x1p-6f);
      // Gradients of weights that meet only padding have one algorithm.
      if (i < 2 || std::min(c.height, c.width) > 1) {
        EXPECT_GT(distance(winograd[i], direct[i]), 0x1p-11f) << "the same algorithm";
      }
    }
  }
}

TEST_F(WinogradInBfloat16, HasTheSameBitsWithAnyNumberOfThreads) {
  const Case c{20, 64, 48, 15, 16};
  const auto expected = results(c, ConvAlgorithm::winograd, DType::bfloat16);
  for (const int threads : {2, 3, 4}) {
    const auto found = results(c, ConvAlgorithm::winograd, DType::bfloat16, threads);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(distance(found[i], expected[i]), 0) << threads << " threads, " << i;
  }
}

}  // namespace
}  // namespace tasuki
