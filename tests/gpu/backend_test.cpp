// Every function of the CUDA backend and its gradients against the CPU's, with fresh random inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "compare.hpp"
#include "device.hpp"
#include "problems.hpp"
#include "tensor/cuda_settings.hpp"
#include "tensor/loss_operations.hpp"
#include "tests/support/patience.hpp"

namespace tasuki::testing {
namespace {

// What Winograd's and FFT algorithms, which cuDNN may choose, leave of float32.
constexpr double of_convolutions = 5e-5;

struct Precision {
  const char* name;
  DType dtype;
  bool tf32;
  double tolerance;
};

class Gpu : public ::testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (const auto reason = why_no_gpu()) GTEST_SKIP() << *reason;
    cuda_settings() = {};
    cuda_settings().allow_tf32 = GetParam().tf32;
  }
  void TearDown() override { cuda_settings() = {}; }

  static std::uint64_t seed() {
    static const std::uint64_t chosen = [] {
      const std::uint64_t fresh = fresh_seed();
      std::cout << "inputs of TASUKI_TEST_SEED=" << fresh << std::endl;
      return fresh;
    }();
    return chosen;
  }

  // Problems whose name begins with `subject`; all for an empty one.
  void check(const std::string& subject) {
    const auto& [name, dtype, tf32, tolerance] = GetParam();
    for (const Problem& problem : all_problems()) {
      if (!problem.name.starts_with(subject)) continue;
      SCOPED_TRACE(problem.name);
      // TF32 rounds what it multiplies, and bfloat16's values are exact there: results of few terms
      // may nearly cancel out.
      const DType rounding = tf32 ? DType::bfloat16 : dtype;
      Side tested(Device::cuda(0), dtype, rounding, seed());
      Side reference(Device::cpu(), DType::float32, rounding, seed());
      poison_pool(Device::cuda(0));
      const bool is_convolution = problem.name.find("convolution/") != std::string::npos;
      const double allowed = is_convolution ? std::max(tolerance, of_convolutions) : tolerance;
      try {
        EXPECT_TRUE(agree(problem.compute(tested), problem.compute(reference), allowed));
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
};

TEST_P(Gpu, Elementwise) {
  for (const char* subject : {"relu", "leaky_relu", "sigmoid", "tanh", "add/", "accumulate/",
                              "scale/", "moving averages/"})
    check(subject);
}
TEST_P(Gpu, ConcatAndTake) {
  check("concat");
}
TEST_P(Gpu, Linear) {
  check("linear");
}
TEST_P(Gpu, Bias) {
  check("bias");
}
TEST_P(Gpu, Convolution) {
  check("convolution");
}
TEST_P(Gpu, Pooling) {
  check("pooling");
}
TEST_P(Gpu, BatchNorm) {
  check("batch_norm");
}
TEST_P(Gpu, Dropout) {
  check("dropout");
}
TEST_P(Gpu, Gather) {
  check("gather");
}
TEST_P(Gpu, Images) {
  check("images");
}
TEST_P(Gpu, CrossEntropy) {
  check("cross_entropy");
}
TEST_P(Gpu, Metrics) {
  check("metrics");
}
TEST_P(Gpu, Update) {
  check("update");
}
TEST_P(Gpu, LossScale) {
  check("loss scale");
}
TEST_P(Gpu, Post) {
  check("post");
}
TEST_P(Gpu, Copy) {
  check("copy");
}
TEST_P(Gpu, ElementwiseOperations) {
  check("elementwise: ");
}
TEST_P(Gpu, ArrayOperations) {
  check("arrays: ");
}
TEST_P(Gpu, NormalizationOperations) {
  check("normalization: ");
}
TEST_P(Gpu, ResidualBlocks) {
  check("residual/");
}
TEST_P(Gpu, SequenceOperations) {
  check("sequences: ");
}
TEST_P(Gpu, AttentionOperations) {
  check("attention: ");
}
TEST_P(Gpu, ImageOperations) {
  check("images: ");
}
TEST_P(Gpu, LossOperations) {
  check("losses: ");
}

// An error on CPUs; a kernel cannot report one, so the loss says it.
TEST_P(Gpu, LossIsNaNForInvalidLabels) {
  Side side(Device::cuda(0), GetParam().dtype, GetParam().dtype, seed());
  LossOperations& losses = side.backend().losses();
  const Tensor x = side.activations({4, 1});
  const auto loss_of = [&](std::int32_t last, DType type) {
    const std::int32_t labels[] = {0, 1, -1, last};
    const Tensor t =
        Tensor::from(std::span<const std::int32_t>(labels), {4, 1}).to(type).to(Device::cuda(0));
    return losses.sigmoid_cross_entropy(x, t, -1).loss.to(Device::cpu()).item();
  };
  for (const DType type : {DType::int32, DType::int64}) {
    EXPECT_TRUE(std::isfinite(loss_of(1, type)));
    for (const std::int32_t label : {2, -2, 255}) EXPECT_TRUE(std::isnan(loss_of(label, type)));
  }
  const std::int32_t labels[] = {0, 7, -1, 0};
  const CountedLoss softmax = losses.softmax_cross_entropy(
      {side.activations({4, 3}),
       Tensor::from(std::span<const std::int32_t>(labels), {4}).to(Device::cuda(0)), 4, 3},
      {});
  EXPECT_TRUE(std::isnan(softmax.loss.to(Device::cpu()).item()));
}

// A processor that simulates a GPU would take a minute to time them.
TEST_P(Gpu, TimedAlgorithmsOfLargeProducts) {
  cuda_settings().autotune = true;
  check("linear/100 x");
  check("linear/rounded weights, 100 x");
}

TEST_P(Gpu, TimedOrDeterministicAlgorithms) {
  cuda_settings().autotune = true;
  check("convolution/conv2d of 2x");
  for (const char* sizes : {"0 x", "1 x", "3", "64 x"}) check(fmt::format("linear/{}", sizes));
  for (const char* sizes : {"0 x", "3 x"}) check(fmt::format("linear/rounded weights, {}", sizes));
  cuda_settings().autotune = false;
  cuda_settings().deterministic = true;
  check("convolution/conv2d of 2x");
}

TEST_P(Gpu, DeterministicConvolutionsRepeatTheirBits) {
  cuda_settings().deterministic = true;
  Side side(Device::cuda(0), GetParam().dtype, GetParam().dtype, seed());
  const Tensor x = side.activations({32, 64, 16, 16}), dy = side.activations({32, 64, 16, 16});
  const Tensor first = side.destination({64, 64, 3, 3}, false);
  const Tensor second = side.destination({64, 64, 3, 3}, false);
  const Conv2dOptions same{1, 1, 1, 1, 1, 1, 1};
  side.backend().conv2d_backward_weights(x, dy, first, same, false);
  side.backend().conv2d_backward_weights(x, dy, second, same, false);
  EXPECT_EQ(relative_distance(first, second), 0);
}

// An activation that takes the larger of x and 0 may lose a NaN, and a training would go on with
// it.
TEST_P(Gpu, ProductsWithReluOrGeluKeepNaN) {
  for (const std::int64_t rows : {4, 100}) {
    SCOPED_TRACE(rows);
    const Tensor x = Tensor::full({rows, 64}, 1);
    x.data<float>()[64 + 3] = std::nanf("");
    const Tensor w = Tensor::full({32, 64}, 0.5f), b = Tensor::full({32}, -1);
    const Device device = Device::cuda(0);
    const Tensor on_device = x.to(GetParam().dtype).to(device), weights = w.to(device),
                 bias = b.to(device);
    Tensor before;
    for (const Tensor& result :
         {backend(device).linear(on_device, weights, bias, true),
          backend(device).linear_gelu(on_device, weights, bias, false, &before),
          backend(device).linear_gelu(on_device, weights, bias, true, &before), before}) {
      const Tensor y = result.to(Device::cpu()).to(DType::float32);
      for (std::int64_t row = 0; row < 3; ++row)
        for (std::int64_t column = 0; column < 32; ++column)
          EXPECT_EQ(std::isnan(y.data<float>()[row * 32 + column]), row == 1)
              << row << ' ' << column;
    }
  }
}

TEST_P(Gpu, ConvolutionsAndPoolingWithReluKeepNaN) {
  const Device device = Device::cuda(0);
  const auto is_nan = [](const Tensor& images, std::int64_t item) {
    const Tensor values = images.to(Device::cpu()).plain().to(DType::float32);
    const Tensor of_item = values.slice(item, item + 1);
    return std::ranges::all_of(of_item.span<float>(), [](float x) { return std::isnan(x); });
  };
  for (const std::int64_t channels : {8, 5}) {  // in packs of 16 bytes, and one by one
    SCOPED_TRACE(channels);
    const Tensor w = Tensor::full({channels, channels, 1, 1}, 0.5f).to(device),
                 b = Tensor::full({channels}, -100).to(device);
    Backend& gpu = backend(device);
    Tensor x = Tensor::full({3, channels, 2, 2}, 1);
    // Whether cuDNN applies ReLU is decided with these.
    gpu.conv2d(x.to(GetParam().dtype).to(device), w, b, {}, nullptr, true);
    for (std::int64_t c = 0; c < channels; ++c)
      for (int pixel = 0; pixel < 4; ++pixel)
        x.data<float>()[(channels + c) * 4 + pixel] = std::nanf("");
    x = x.to(GetParam().dtype).to(device);
    const Pool2dOptions halves{PoolKind::average, 2, 2, 2, 2, 0, 0, false};
    const Tensor laid_out = gpu.conv2d(x, w, {}, {});
    for (const Tensor& y :
         {gpu.conv2d(x, w, b, {}, nullptr, true), gpu.conv2d(x, w, {}, {}, nullptr, true),
          gpu.relu_pool2d(x, halves, nullptr), gpu.relu_pool2d(laid_out, halves, nullptr)})
      for (const std::int64_t item : {0, 1, 2}) EXPECT_EQ(is_nan(y, item), item == 1) << item;
  }
}

TEST_P(Gpu, StampsMeasureTheTimeBetweenThem) {
  const Device device = Device::cuda(0);
  Backend& gpu = backend(device);
  const Tensor clock = Tensor::zeros({step_clock_values}, DType::float64, device);
  const Tensor work = Tensor::zeros({1 << 20}, DType::float32, device);
  using Moment = StepClock::Moment;
  for (const Moment moment :
       {Moment::resume, Moment::forward, Moment::backward, Moment::exchange, Moment::update}) {
    gpu.stamp(clock, moment);
    for (int i = 0; i < 4; ++i) gpu.scale(work, 1);
  }
  const Tensor table(gpu.allocate_mailbox(2 * sizeof(double), device), 0, {1, 2}, DType::float64);
  gpu.post(table, Tensor::zeros({}, DType::int64, device), {}, clock);  // the end of the step
  const Tensor host = clock.to(Device::cpu());
  const auto* const found = reinterpret_cast<const StepClock*>(host.data<double>());
  for (const double seconds : found->seconds) {
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 10 * patience());
  }
}

// Nothing is done while it is recorded, and each replay does it with what is there then.
TEST_P(Gpu, RecordingsRunOnlyWhenReplayed) {
  const Device device = Device::cuda(0);
  Backend& gpu = backend(device);
  const Tensor sum = Tensor::zeros({1000}, DType::float32, device);
  const Tensor term = Tensor::full({1000}, 1, DType::float32, device);
  const auto work = [&] {
    const Tensor twice = gpu.add(term, term);
    gpu.accumulate(sum, twice, 0.5F);
  };
  work();  // libraries and pools are prepared by then, as in training
  const auto recording = gpu.record(device, work);
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(relative_distance(sum, Tensor::full({1000}, 1)), 0);
  recording->replay();
  term.fill(10);
  recording->replay();
  EXPECT_EQ(relative_distance(sum, Tensor::full({1000}, 12)), 0);
  EXPECT_THROW(static_cast<void>(gpu.record(device, [&] { sum.slice(0, 1).reshape({}).item(); })),
               Error);
  recording->replay();
  EXPECT_EQ(relative_distance(sum, Tensor::full({1000}, 22)), 0);
}

TEST_P(Gpu, MemoryInUseMatchesTensors) {
  const Device device = Device::cuda(0);
  Backend& gpu = backend(device);
  constexpr std::size_t bytes = std::size_t{24} << 20;
  gpu.reset_peak_memory(device);
  const DeviceMemory before = gpu.memory(device);
  {
    const Tensor held = Tensor::empty({bytes}, DType::uint8, device);
    const DeviceMemory with_tensor = gpu.memory(device);
    EXPECT_GE(with_tensor.in_use, before.in_use + bytes);
    EXPECT_LT(with_tensor.in_use, before.in_use + 2 * bytes);
  }
  EXPECT_EQ(gpu.memory(device).in_use, before.in_use);
  EXPECT_GE(gpu.memory(device).peak, before.in_use + bytes);
  EXPECT_GT(gpu.memory(device).free, bytes);
  gpu.reset_peak_memory(device);
  EXPECT_EQ(gpu.memory(device).peak, before.in_use);
}

// A query of unfinished work is not an error of what comes after it.
TEST_P(Gpu, IdleQueryLeavesNoError) {
  const Device device = Device::cuda(0);
  const Tensor work = Tensor::zeros({1 << 20}, DType::float32, device);
  for (int i = 0; i < 8; ++i) backend(device).scale(work, 1);
  static_cast<void>(backend(device).is_idle(device));
  EXPECT_NO_THROW(backend(device).scale(work, 1));
  backend(device).synchronize(device);
  EXPECT_TRUE(backend(device).is_idle(device));
}

class GpuFloat32 : public Gpu {};

// Of inputs that TF32 has to round, in sums of so many terms that relative norms do not depend on
// chance: to nearest, it is 3e-4 away, and cut off 8e-4.
TEST_P(GpuFloat32, IsRoundedToTf32OnRequest) {
  const auto products = [](Side& side) -> std::array<Results, 2> {
    Backend& backend = side.backend();
    const Tensor x = side.parameters({128, 512}), w = side.parameters({256, 512});
    const Tensor dy = side.parameters({128, 256}), dw = side.destination(w.shape(), false);
    backend.linear_backward_weights(x, dy, dw, false, {});
    const Conv2dOptions same{1, 1, 1, 1, 1, 1, 1};
    const Tensor images = side.parameters({4, 32, 16, 16}),
                 filters = side.parameters({32, 32, 3, 3});
    const Tensor slopes = side.parameters({4, 32, 16, 16});
    const Tensor dfilters = side.destination(filters.shape(), false);
    backend.conv2d_backward_weights(images, slopes, dfilters, same, false);
    return {Results{{"y", backend.linear(x, w, {}, false)},
                    {"dx", backend.linear_backward_data(dy, w)},
                    {"dw", dw}},
            Results{{"y", backend.conv2d(images, filters, {}, same)},
                    {"dx", backend.conv2d_backward_data(slopes, filters, images.shape(), same)},
                    {"dw", dfilters}}};
  };
  Side tested(Device::cuda(0), DType::float32, DType::float32, seed());
  Side reference(Device::cpu(), DType::float32, DType::float32, seed());
  const auto found = products(tested), expected = products(reference);
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE(i == 0 ? "linear" : "convolution");
    const double allowed = i == 0 ? 1e-5 : of_convolutions;
    const bool is_exact = static_cast<bool>(agree(found[i], expected[i], allowed));
    EXPECT_EQ(is_exact, !GetParam().tf32);
    EXPECT_TRUE(agree(found[i], expected[i], 1e-3));
  }
}

// TF32 rounds each factor of a product by at most u = 2^-11 of it, by 0.43 u in the root mean
// square (to nearest, mantissas distributed logarithmically). Where both factors of a result had to
// be rounded (those in the middle of a chain of functions), it is up to 2 u off. Sums of random
// terms cancel, by chance more than their errors do: dbeta of the chain of layouts, with one factor
// rounded, depends on 12 sums, and its distance is 0.43 u times the root of an F(12, 12). That
// passes u once in 300 seeds, and 2 u (2^-10) once in 400,000.
constexpr Precision fp32{"fp32", DType::float32, false, 1e-5},
    tf32{"tf32", DType::float32, true, 0x1p-10}, bf16{"bf16", DType::bfloat16, false, 1e-2},
    fp16{"fp16", DType::float16, false, 1e-2};
std::string name_of_row(const ::testing::TestParamInfo<Precision>& row) {
  return row.param.name;
}
INSTANTIATE_TEST_SUITE_P(Precisions, Gpu, ::testing::Values(fp32, tf32, bf16, fp16), name_of_row);
INSTANTIATE_TEST_SUITE_P(Precisions, GpuFloat32, ::testing::Values(fp32, tf32), name_of_row);

}  // namespace
}  // namespace tasuki::testing
