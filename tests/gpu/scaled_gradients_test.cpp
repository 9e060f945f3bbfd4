// Losses and functions in float16 with a scaled loss: gradients that float16 could not hold are
// those of the CPU in float32, times the scale.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "compare.hpp"
#include "device.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/images.hpp"
#include "nn/functions/loss.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/functions/sequences.hpp"
#include "optimizer/loss_scaler.hpp"

namespace F = tasuki::functions;

namespace tasuki::testing {
namespace {

constexpr double small = 0x1p-22;  // the seed without a scale

// Labels 0 .. classes - 1 in turn, and some -1, which are ignored.
Tensor labels(const Shape& shape, std::int32_t classes, Device device) {
  const Tensor made = Tensor::empty(shape, DType::int32);
  for (std::int64_t i = 0; i < made.count(); ++i)
    made.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % (classes + 1)) - 1;
  return made.to(device);
}

struct Case {
  const char* name;
  Shape shape;  // of x
  std::function<Variable(const Variable& x)> loss;
};

Variable squared(const Variable& y) {
  return F::mean_squared_error(y,
                               Tensor::full(y.shape(), 0.25, DType::float32, y.value().device()));
}

Variable ones(std::int64_t count, Device device) {
  return Variable(Tensor::full({count}, 1, DType::float32, device));
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"mean_squared_error", {8, 40}, squared},
      {"huber_loss",
       {8, 40},
       [](const Variable& x) {
         return F::huber_loss(x, Tensor::full(x.shape(), 0.25, DType::float32, x.value().device()));
       }},
      {"sigmoid_cross_entropy",
       {8, 40},
       [](const Variable& x) {
         return F::sigmoid_cross_entropy(x, labels(x.shape(), 2, x.value().device()));
       }},
      {"softmax_cross_entropy of pixels",
       {2, 5, 30},
       [](const Variable& x) {
         return F::softmax_cross_entropy(x, labels({2, 30}, 5, x.value().device()),
                                         {.label_smoothing = 0.1f});
       }},
      {"gelu", {8, 40}, [](const Variable& x) { return squared(F::gelu(x)); }},
      {"linear_gelu",
       {8, 40},
       [](const Variable& x) {
         const Device device = x.value().device();
         const Variable w(Tensor::full({16, 40}, 0.125, DType::float32, device));
         return squared(F::linear_gelu(x, w, ones(16, device), /*approximate=*/true));
       }},
      {"silu", {8, 40}, [](const Variable& x) { return squared(F::silu(x)); }},
      {"elu", {8, 40}, [](const Variable& x) { return squared(F::elu(x)); }},
      {"softplus", {8, 40}, [](const Variable& x) { return squared(F::softplus(x)); }},
      {"softmax", {8, 40}, [](const Variable& x) { return squared(F::softmax(x)); }},
      {"log_softmax", {8, 40}, [](const Variable& x) { return squared(F::log_softmax(x)); }},
      {"layer_norm",
       {8, 40},
       [](const Variable& x) {
         const Variable gamma = ones(40, x.value().device());
         return squared(F::layer_norm(x, gamma, gamma) * x);
       }},
      {"attention",
       {2, 9, 24},
       [](const Variable& x) {
         return squared(F::self_attention(x, {.heads = 2, .causal = true}));
       }},
      {"arithmetic", {8, 40}, [](const Variable& x) { return squared(x * x - x / 2 + 1); }},
      {"matmul", {8, 40}, [](const Variable& x) { return squared(F::matmul(x, x, false, true)); }},
      {"sum", {8, 40}, [](const Variable& x) { return squared(F::sum(x, {1})); }},
      {"mean", {8, 40}, [](const Variable& x) { return squared(F::mean(x, {0})); }},
      {"max", {8, 40}, [](const Variable& x) { return squared(F::max(x, {1})); }},
      {"transpose", {8, 40}, [](const Variable& x) { return squared(F::transpose(x)); }},
      {"upsampling",
       {2, 3, 4, 4},
       [](const Variable& x) { return squared(F::upsampling_2d(x, 2)); }},
  };
  return all;
}

class ScaledGradients : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const auto reason = why_no_gpu()) GTEST_SKIP() << *reason;
  }
  // The gradient of the loss of x.
  static Tensor gradient(const Tensor& x, const Tensor& seed) {
    const Variable leaf(x, /*requires_grad=*/true);
    GetParam().loss(leaf).backward(seed);
    return leaf.grad();
  }
};

TEST_P(ScaledGradients, MatchTheCpusTimesTheScale) {
  const Device gpu = Device::cuda(0);
  Side side(Device::cpu(), DType::float32, DType::float16, fresh_seed());
  const Tensor x = side.activations(GetParam().shape);  // numbers that float16 has
  const Tensor half = x.to(gpu).to(DType::float16);
  const Tensor expected = gradient(x, Tensor::full({}, small));
  const LossScaler scaler(gpu, {.initial = 0x1p28, .rule = {}});
  const Tensor scaled = gradient(half, scaler.seed(small));
  EXPECT_EQ(scaled.dtype(), DType::float16);
  const Tensor found = scaled.to(DType::float32).plain().clone();
  scaler.unscale(found);
  EXPECT_EQ(scaler.found().item(), 0);
  EXPECT_LE(relative_distance(found, expected), 1e-2);
  // What the scale is for.
  const Tensor lost = gradient(half, Tensor::full({}, small, DType::float32, gpu));
  EXPECT_GT(relative_distance(lost, expected), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Cases, ScaledGradients, ::testing::ValuesIn(cases()),
                         [](const ::testing::TestParamInfo<Case>& row) {
                           std::string name = row.param.name;
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace tasuki::testing
