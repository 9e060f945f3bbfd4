#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <new>

#include "tensor/backend.hpp"
#include "tensor/image_operations.hpp"
#include "tensor/parallel.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::cpu;
using testing::distance;
using testing::random_tensor;
using testing::values_of;

// Row-major a (m x k) times b (k x n), with either read transposed, in double.
Tensor product(const Tensor& a, bool ta, const Tensor& b, bool tb) {
  const std::int64_t m = a.shape()[ta ? 1 : 0], k = a.shape()[ta ? 0 : 1];
  const std::int64_t n = b.shape()[tb ? 0 : 1];
  Tensor c = Tensor::empty({m, n});
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(a.data<float>()[ta ? l * m + i : i * k + l]) *
               static_cast<double>(b.data<float>()[tb ? j * k + l : l * n + j]);
      c.data<float>()[i * n + j] = static_cast<float>(sum);
    }
  }
  return c;
}

class CpuBackendThreads : public ::testing::TestWithParam<int> {
 protected:
  CpuBackendThreads() { set_cpu_threads(GetParam()); }
  ~CpuBackendThreads() override { set_cpu_threads(1); }
};
INSTANTIATE_TEST_SUITE_P(OneAndTwo, CpuBackendThreads, ::testing::Values(1, 2));

TEST_P(CpuBackendThreads, ExceptionsOfATeamReachTheCaller) {
  for (const std::int64_t failing : {0, 7}) {
    std::atomic<int> items = 0;
    const auto work = [&](std::int64_t begin, std::int64_t end) {
      items += static_cast<int>(end - begin);
      if (begin <= failing && failing < end) throw std::bad_alloc();
    };
    EXPECT_THROW(parallel_for(8, 1, work), std::bad_alloc);
    EXPECT_EQ(items, 8);
  }
}

TEST_P(CpuBackendThreads, ATeamsThreadsAreOneThreadEach) {
  std::atomic<int> others = 0;
  parallel_for(8, 1, [&](std::int64_t, std::int64_t) { others += cpu_threads() != 1 ? 1 : 0; });
  EXPECT_EQ(others, 0);
  EXPECT_EQ(cpu_threads(), GetParam());
}

TEST_P(CpuBackendThreads, LinearMatchesItsDefinition) {
  for (const auto& [n, i, o] : {std::array{1, 1, 1}, std::array{7, 33, 5}, std::array{100, 64, 130},
                                std::array{2, 300, 17}}) {
    const Tensor x = random_tensor({n, i}, 1), w = random_tensor({o, i}, 2);
    const Tensor b = random_tensor({o}, 3), dy = random_tensor({n, o}, 4);
    Tensor biased = product(x, false, w, true);
    EXPECT_LT(distance(cpu().linear(x, w, {}, false), biased), 1e-5f);
    for (std::int64_t k = 0; k < biased.count(); ++k)
      biased.data<float>()[k] += b.data<float>()[k % o];
    EXPECT_LT(distance(cpu().linear(x, w, b, false), biased), 1e-5f);
    EXPECT_LT(distance(cpu().add_linear(dy, x, w, b), cpu().add(biased, dy)), 1e-5f);
    EXPECT_LT(distance(cpu().linear_backward_data(dy, w), product(dy, false, w, false)), 1e-5f);
    const Tensor dw = Tensor::full({o, i}, 1e6), once = product(dy, true, x, false);
    cpu().linear_backward_weights(x, dy, dw, false, {});
    EXPECT_LT(distance(dw, once), 1e-5f);
    cpu().linear_backward_weights(x, dy, dw, true, {});
    EXPECT_LT(distance(dw, cpu().add(once, once)), 1e-5f);
    const Tensor db = Tensor::full({o}, 1e6),
                 sums = product(dy, true, Tensor::full({n, 1}, 1), false);
    cpu().backward_bias(dy, db, false);
    EXPECT_LT(distance(db, sums.reshape({o})), 1e-5f);
    cpu().backward_bias(dy, db, true);
    EXPECT_LT(distance(db, cpu().add(sums, sums).reshape({o})), 1e-5f);
  }
}

TEST_P(CpuBackendThreads, LongElementwiseLoopsAreExact) {
  const Tensor x = random_tensor({100'003}, 1), dy = random_tensor({100'003}, 2);
  const auto check = [&](const Tensor& result, const auto& expected) {
    ASSERT_EQ(result.shape(), x.shape());
    for (std::int64_t i = 0; i < x.count(); ++i)
      ASSERT_NEAR(result.data<float>()[i], expected(x.data<float>()[i], dy.data<float>()[i]), 1e-6f)
          << i;
  };
  check(cpu().unary(Unary::relu, x, 0), [](float a, float) { return a > 0 ? a : 0; });
  check(cpu().unary(Unary::leaky_relu, x, 0.1f),
        [](float a, float) { return a > 0 ? a : 0.1f * a; });
  check(cpu().unary(Unary::tanh, x, 0), [](float a, float) { return std::tanh(a); });
  check(cpu().unary(Unary::sigmoid, x, 0), [](float a, float) { return 1 / (1 + std::exp(-a)); });
  check(cpu().unary_backward(Unary::relu, x, dy, 0),
        [](float y, float g) { return y > 0 ? g : 0; });
  check(cpu().unary_backward(Unary::leaky_relu, x, dy, 0.1f),
        [](float y, float g) { return y > 0 ? g : 0.1f * g; });
  check(cpu().unary_backward(Unary::tanh, x, dy, 0),
        [](float y, float g) { return g * (1 - y * y); });
  check(cpu().unary_backward(Unary::sigmoid, x, dy, 0),
        [](float y, float g) { return g * y * (1 - y); });
  check(cpu().add(x, dy), [](float a, float b) { return a + b; });
  const Tensor sum = x.clone();
  cpu().accumulate(sum, dy, -2);
  check(sum, [](float a, float b) { return a - 2 * b; });
  cpu().scale(sum, 0.5f);
  check(sum, [](float a, float b) { return (a - 2 * b) / 2; });
}

// Activation functions must not hide values that are not finite.
TEST(CpuBackend, ActivationsPropagateNaN) {
  const Tensor x = Tensor::full({40}, std::nan("")), one = Tensor::full({40}, 1);
  for (const Unary op : {Unary::relu, Unary::leaky_relu, Unary::sigmoid, Unary::tanh}) {
    EXPECT_TRUE(std::isnan(values_of(cpu().unary(op, x, 0.2f))[39]));
    EXPECT_TRUE(std::isnan(values_of(cpu().unary_backward(op, one, x, 0.2f))[39]));
  }
}

TEST(CpuBackend, LinearChecksShapes) {
  const Tensor x = Tensor::zeros({2, 3}), w = Tensor::zeros({4, 3});
  EXPECT_THROW(cpu().linear(Tensor::zeros({2, 4}), w, {}, false), Error);
  EXPECT_THROW(cpu().linear(x, w, Tensor::zeros({3}), false), Error);
  EXPECT_THROW(cpu().linear_backward_data(x, w), Error);
  EXPECT_THROW(cpu().linear_backward_weights(x, Tensor::zeros({3, 4}), w, false, {}), Error);
  EXPECT_THROW(cpu().add(x, w), Error);
  EXPECT_THROW(cpu().accumulate(x, w, 1), Error);
}

TEST(CpuBackend, ProductsAcceptEmptySides) {
  const Tensor none = Tensor::empty({0, 3}), w = random_tensor({4, 3}, 1);
  EXPECT_EQ(cpu().linear(none, w, random_tensor({4}, 1), false).shape(), (Shape{0, 4}));
  EXPECT_EQ(cpu().linear_backward_data(Tensor::empty({0, 4}), w).shape(), (Shape{0, 3}));
  EXPECT_EQ(values_of(cpu().linear(Tensor::empty({1, 0}), Tensor::empty({2, 0}), {}, false)),
            (std::vector<float>{0, 0}));
  const Tensor dw = Tensor::full({4, 3}, 2);
  cpu().linear_backward_weights(none, Tensor::empty({0, 4}), dw, true, {});
  EXPECT_EQ(dw.data<float>()[0], 2);
}

TEST(CpuBackend, ConcatAndTakeAreInverse) {
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<Tensor> parts;
    Shape shape = {2, 3, 4};
    for (const std::int64_t size : {2, 0, 3}) {
      shape[axis] = size;
      parts.push_back(random_tensor(shape, static_cast<std::uint64_t>(size)));
    }
    const Tensor joined = cpu().concat(parts, axis);
    std::int64_t begin = 0;
    for (const Tensor& part : parts) {
      const std::int64_t end = begin + part.shape()[axis];
      EXPECT_EQ(distance(cpu().take(joined, axis, begin, end), part), 0);
      begin = end;
    }
  }
  EXPECT_THROW(cpu().concat(std::vector<Tensor>{}, 0), Error);
  EXPECT_THROW(cpu().concat(std::vector{Tensor::zeros({2, 3}), Tensor::zeros({3, 3})}, 1), Error);
  EXPECT_THROW(cpu().take(Tensor::zeros({2, 3}), 1, 2, 4), Error);
  EXPECT_THROW(cpu().take(Tensor::zeros({2, 3}), 2, 0, 0), Error);
}

TEST(CpuBackend, SoftmaxHandlesExtremeScores) {
  const std::vector<float> scores = {1e30f, 0, -1e30f, -88, -1e4f, 0};
  const Tensor x = Tensor::from(std::span(scores), {2, 3});
  const Tensor t =
      Tensor::from(std::span<const std::int64_t>(std::vector<std::int64_t>{0, 2}), {2});
  const auto result = cpu().softmax_cross_entropy(x, t);
  EXPECT_EQ(result.loss.item(), 0);
  EXPECT_EQ(result.counted.item(), 2);
  EXPECT_NEAR(result.probabilities.data<float>()[0], 1, 1e-6);
  EXPECT_NEAR(result.probabilities.data<float>()[3], 0, 1e-30);
}

TEST(CpuBackend, SoftmaxPropagatesNaN) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const Tensor x = Tensor::zeros({1, 40}), t = Tensor::zeros({1}, DType::int32);
    x.data<float>()[37] = bad;
    EXPECT_FALSE(std::isfinite(cpu().softmax_cross_entropy(x, t).loss.item()));
  }
}

TEST(CpuBackend, SoftmaxHandlesManyClasses) {
  const Tensor x = random_tensor({3, 1003}, 1), t = Tensor::zeros({3}, DType::int32);
  cpu().scale(x, 20);
  const Tensor p = cpu().softmax_cross_entropy(x, t).probabilities;
  for (std::int64_t row = 0; row < 3; ++row) {
    double sum = 0, exact = 0;
    for (std::int64_t j = 0; j < 1003; ++j)
      exact += std::exp(static_cast<double>(x.data<float>()[row * 1003 + j]));
    for (std::int64_t j = 0; j < 1003; ++j) {
      const auto value = static_cast<double>(p.data<float>()[row * 1003 + j]);
      const double expected =
          std::exp(static_cast<double>(x.data<float>()[row * 1003 + j])) / exact;
      ASSERT_NEAR(value, expected, 5e-6 * expected);  // differences of 40 are rounded to 2e-6
      sum += value;
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

TEST(CpuBackend, PredictionIsTheFirstOfEqualScores) {
  const Tensor x = Tensor::full({2, 3}, 1);
  const Tensor t =
      Tensor::from(std::span<const std::int32_t>(std::vector<std::int32_t>{0, 1}), {2});
  EXPECT_EQ(cpu().count_correct(x, t).correct.item(), 1);
}

TEST(CpuBackend, GatherSelectsItemsAndDecodesPixels) {
  std::vector<std::uint8_t> pixels(256);
  for (std::size_t i = 0; i < 256; ++i) pixels[i] = static_cast<std::uint8_t>(i);
  const Tensor source = Tensor::from(std::span<const std::uint8_t>(pixels), {64, 2, 2});
  const Tensor indices =
      Tensor::from(std::span<const std::int64_t>(std::vector<std::int64_t>{63, 0, 63}), {3});
  const Tensor same = cpu().gather(source, indices, DType::uint8);
  EXPECT_EQ(same.shape(), Shape({3, 2, 2}));
  EXPECT_EQ(same.data<std::uint8_t>()[0], 252);
  EXPECT_EQ(same.data<std::uint8_t>()[4], 0);
  const Tensor decoded = cpu().gather(source, indices, DType::float32);
  for (std::int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(decoded.data<float>()[i], static_cast<float>(same.data<std::uint8_t>()[i]) / 255.0F);
  EXPECT_THROW(cpu().gather(source, Tensor::full({1}, 64, DType::int64), DType::uint8), Error);
  EXPECT_THROW(cpu().gather(source, Tensor::full({1}, -1, DType::int64), DType::uint8), Error);
  EXPECT_THROW(cpu().gather(source, indices, DType::int32), Error);
}

TEST(CpuBackend, ScalarsAreAccumulatedInDouble) {
  const Tensor sum = Tensor::full({}, 1, DType::float64);
  cpu().accumulate_scalar(sum, Tensor::full({}, 3, DType::int64), 0.5);
  cpu().accumulate_scalar(sum, Tensor::full({}, 0.25), 2);
  EXPECT_EQ(sum.item(), 3);
}

TEST(CpuBackend, ChecksLabels) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_THROW(cpu().softmax_cross_entropy(x, Tensor::full({2}, 3, DType::int64)), Error);
  EXPECT_THROW(cpu().softmax_cross_entropy(x, Tensor::full({2}, -2, DType::int64)), Error);
  EXPECT_THROW(cpu().softmax_cross_entropy(x, Tensor::zeros({3}, DType::int64)), Error);
  EXPECT_THROW(cpu().softmax_cross_entropy(x, Tensor::zeros({2})), Error);
  const auto ignored = cpu().softmax_cross_entropy(x, Tensor::full({2}, -1, DType::int64));
  EXPECT_EQ(ignored.counted.item(), 0);
  EXPECT_EQ(ignored.loss.item(), 0);
}

TEST(CpuBackend, BatchNormRejectsEmptyBatches) {
  const Tensor one = Tensor::full({3}, 1);
  EXPECT_THROW(cpu().batch_norm(Tensor::empty({0, 3}), one, one, 1e-5f, false), Error);
  EXPECT_THROW(cpu().batch_norm(Tensor::zeros({2, 4}), one, one, 1e-5f, false), Error);
  EXPECT_EQ(
      cpu().batch_norm_inference(Tensor::empty({0, 3}), one, one, one, one, 1e-5f, false).shape(),
      (Shape{0, 3}));
}

// oneDNN takes the orders of both for one: what it keeps of the first forward pass must serve the
// other's gradient. A batch of its own size in each case, because primitives are kept.
TEST(CpuBackend, BatchNormOfOnePixelMatchesVectors) {
  std::int64_t items = 5;
  for (const std::int64_t count : {7, 16})
    for (const bool relu : {false, true})
      for (const bool images_first : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{} channels, relu {}, images first {}", count, relu, images_first));
        const Shape flat{items++, count}, image{flat[0], count, 1, 1}, channels{count};
        const Tensor x = random_tensor(flat, 1), dy = random_tensor(flat, 2);
        const Tensor gamma = random_tensor(channels, 3), beta = random_tensor(channels, 4);
        const auto forward = [&](const Shape& shape) {
          return cpu().batch_norm(x.reshape(shape), gamma, beta, 1e-3f, relu);
        };
        const auto normalised = [&](const Shape& shape) {
          const Tensor dgamma = Tensor::empty(channels), dbeta = Tensor::empty(channels);
          const BatchNormResult found = forward(shape);
          const Tensor dx =
              cpu().batch_norm_backward(x.reshape(shape), found, dy.reshape(shape), gamma, beta,
                                        1e-3f, relu, dgamma, dbeta, false);
          return std::array{found.y.reshape(flat), dx.reshape(flat), dgamma, dbeta};
        };
        forward(images_first ? image : flat);
        const auto second = normalised(images_first ? flat : image);
        const auto first = normalised(images_first ? image : flat);
        for (std::size_t i = 0; i < first.size(); ++i)
          EXPECT_LT(distance(first[i], second[i]), 1e-6f) << "array " << i;
      }
}

// Also where a primitive for float32 of the same shape is kept already.
TEST(CpuBackend, RejectsOtherTypes) {
  const Tensor x = random_tensor({3, 4, 5, 5}, 1), w = random_tensor({2, 4, 3, 3}, 2);
  const Tensor channels = random_tensor({4}, 3), wide = channels.to(DType::float64);
  const Tensor columns = random_tensor({5}, 3);
  const Pool2dOptions window{PoolKind::max, 2, 2, 2, 2, 0, 0, true};
  const auto pool = [&](const Tensor& images) { cpu().pool2d(images, window, nullptr); };
  const auto respond = [&](const Tensor& images) {
    cpu().images().local_response_norm(images, {}, nullptr);
  };
  const auto normalise = [&](const Tensor& values, const Tensor& gamma) {
    cpu().batch_norm(values, gamma, gamma, 1e-3f, false);
  };
  for (const auto& run : std::vector<std::function<void(const Tensor&)>>{
           pool, respond, [&](const Tensor& images) { normalise(images, channels); },
           [&](const Tensor& images) {
             normalise(images.reshape({60, 5}), columns);
           },
           [&](const Tensor& images) { cpu().conv2d(images, w, {}, {}); }}) {
    EXPECT_NO_THROW(run(x));
    EXPECT_THROW(run(x.to(DType::float64)), Error);
    EXPECT_THROW(run(x.to(DType::int32)), Error);
  }
  EXPECT_THROW(normalise(x, wide), Error);
  EXPECT_THROW(cpu().conv2d(x, w, wide.slice(0, 2), {}), Error);
}

TEST(CpuThreads, AreSetPerThread) {
  set_cpu_threads(2);
  EXPECT_EQ(cpu_threads(), 2);
  set_cpu_threads(1);
  EXPECT_EQ(cpu_threads(), 1);
  EXPECT_THROW(set_cpu_threads(0), Error);
}

}  // namespace
}  // namespace tasuki
