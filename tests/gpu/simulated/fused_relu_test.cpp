// Convolutions with a bias and ReLU: one call of cuDNN's where it has shown that it keeps NaN, two
// passes otherwise (tensor/cuda/fusion_trial.hpp). What the simulated cuDNN does is up to
// tests/support/simulated_cuda/refusals.hpp.
#include <cudnn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

#include "core/error.hpp"
#include "core/log.hpp"
#include "tensor/cuda/convolution_plan.hpp"
#include "tensor/cuda/timing.hpp"
#include "tensor/cuda_settings.hpp"
#include "tensor/image_operations.hpp"
#include "tests/gpu/compare.hpp"
#include "tests/gpu/device.hpp"

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;

struct Precision {
  const char* name;
  DType type;
  bool tf32 = false;
  double tolerance = 1e-2;
};

class FusedRelu : public ::testing::TestWithParam<Precision> {
 protected:
  static inline const Device gpu = Device::cuda(0);
  static constexpr float nan = std::numeric_limits<float>::quiet_NaN();

  void SetUp() override {
    ASSERT_EQ(why_no_gpu(), std::nullopt);
    cuda_settings().allow_tf32 = GetParam().tf32;
  }
  void TearDown() override {
    cuda_settings() = CudaSettings{};
    ::unsetenv("SIMULATED_CUDNN_RELU");
    ::unsetenv("SIMULATED_CUDNN_REFUSES");
  }

  static void manner(const char* text) { ::setenv("SIMULATED_CUDNN_RELU", text, 1); }
  static void refuse(const std::string& what, cudnnStatus_t status) {
    ::setenv("SIMULATED_CUDNN_REFUSES",
             fmt::format("{} {}", what, static_cast<int>(status)).c_str(), 1);
  }

  struct Problem {
    Shape x, w;
    Conv2dOptions options{1, 1, 1, 1, 1, 1, 1};
  };
  // Of a new shape each time, because what was decided for a shape is kept.
  static Problem next() {
    static std::int64_t height = 3;
    return {{3, 8, ++height, 6}, {16, 8, 3, 3}};
  }

  static Results results(Side& side, const Problem& problem) {
    const Tensor x = side.activations(problem.x), w = side.weights(problem.w),
                 b = side.weights({problem.w[0]}).to(x.dtype());
    return {{"y", side.backend().conv2d(x, w, b, problem.options, nullptr, true)}};
  }
  static void expect_right(const Problem& problem) {
    Side found(gpu, GetParam().type, GetParam().type, 5);
    Side expected(Device::cpu(), DType::float32, GetParam().type, 5);
    EXPECT_TRUE(agree(results(found, problem), results(expected, problem), GetParam().tolerance));
  }

  // All biases have this value; images are ones or, the second one, `second`.
  struct Operands {
    Tensor x, w, b;

    Operands(const Problem& problem, float bias, float second = 1)
        : x(Tensor::full(problem.x, 1).to(GetParam().type).to(gpu)),
          w(Tensor::full(problem.w, 0.5F).to(gpu)),
          b(Tensor::full({problem.w[0]}, bias).to(GetParam().type).to(gpu)) {
      x.slice(1, 2).fill(second);
    }
    Tensor convolved(const Conv2dOptions& options) const {
      return backend(gpu).conv2d(x, w, b, options, nullptr, true);
    }
  };
  static Tensor convolved(const Problem& problem, float bias, float second = 1) {
    return Operands(problem, bias, second).convolved(problem.options);
  }
  template <class Test>
  static bool all(const Tensor& y, const Test& test) {
    const Tensor values = y.to(Device::cpu()).plain().to(DType::float32);
    return std::ranges::all_of(values.span<float>(), test);
  }
  static bool is_nan(const Tensor& y) {
    return all(y, [](float value) { return std::isnan(value); });
  }

  // Which way a recording or the next call takes: one of the two loses NaN.
  static bool is_fused(const Problem& problem) {
    manner("drops_nan");
    const Tensor y = convolved(problem, nan);
    ::unsetenv("SIMULATED_CUDNN_RELU");
    return is_zero(y);
  }
  static bool is_zero(const Tensor& y) {
    const bool is_zero = all(y, [](float value) { return value == 0; });
    EXPECT_NE(is_zero, is_nan(y));
    return is_zero;
  }

  static void expect_kept_nan(const Problem& problem) {
    const Tensor y = convolved(problem, -1, nan).to(Device::cpu()).plain();
    EXPECT_TRUE(is_nan(y.slice(1, 2)));
    for (const std::int64_t item : {0, 2})
      EXPECT_TRUE(all(y.slice(item, item + 1), [](float value) { return value > 0; }));
  }

  // What a first use says.
  static std::string words_about(const Problem& problem) {
    configure_log(0, LogLevel::verbose);
    ::testing::internal::CaptureStderr();
    expect_right(problem);
    configure_log(0, LogLevel::info);
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_P(FusedRelu, IsOneCallThatKeepsNaN) {
  const std::array problems = {next(), Problem{{3, 16, 9, 8}, {32, 4, 3, 3}, {2, 1, 1, 1, 1, 1, 4}},
                               Problem{{2, 3, 9, 7}, {5, 3, 3, 2}, {1, 2, 2, 0, 1, 1, 1}},
                               Problem{{2, 3, 5, 7}, {1, 3, 1, 1}, {}}};
  for (const Problem& problem : problems) {
    SCOPED_TRACE(problem.w.text());
    EXPECT_THAT(words_about(problem), HasSubstr("cuDNN adds the bias and applies ReLU"));
    EXPECT_TRUE(is_fused(problem));
    expect_right(problem);
  }
  expect_kept_nan(problems.front());
  EXPECT_TRUE(is_zero(convolved(problems.front(), -std::numeric_limits<float>::infinity())));
}

TEST_P(FusedRelu, IsTwoPassesWhereTheCallLosesNaN) {
  const Problem problem = next();
  manner("drops_nan");
  EXPECT_THAT(
      words_about(problem),
      HasSubstr(
          "bias and ReLU are a pass of their own; against cuDNN's call, asked to keep NaN: "));
  expect_kept_nan(problem);
  EXPECT_FALSE(is_fused(problem));
  expect_kept_nan(problem);
}

TEST_P(FusedRelu, IsTwoPassesWhereTheCallReadsWhatItIsToOverwrite) {
  const Problem problem = next();
  manner("reads_z");
  EXPECT_THAT(words_about(problem), HasSubstr("a pass of their own"));
  EXPECT_FALSE(is_fused(problem));
}

TEST_P(FusedRelu, IsOneCallWhereCudnnKeepsNaNUnasked) {
  const Problem problem = next();
  manner("takes_no_request");
  EXPECT_THAT(words_about(problem), HasSubstr("applies ReLU in the same call (not asked to"));
  expect_kept_nan(problem);
  EXPECT_TRUE(is_fused(problem));
}

TEST_P(FusedRelu, IsTwoPassesWhereTheCallIsRefusedOrFails) {
  for (const cudnnStatus_t status :
       {CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_NOT_SUPPORTED,
        CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, CUDNN_STATUS_EXECUTION_FAILED}) {
    SCOPED_TRACE(static_cast<int>(status));
    const Problem problem = next();
    refuse("run any fused", status);
    EXPECT_THAT(words_about(problem), HasSubstr("an error of the simulated cuDNN"));
    expect_kept_nan(problem);
    ::unsetenv("SIMULATED_CUDNN_REFUSES");
    EXPECT_FALSE(is_fused(problem));
  }
}

TEST_P(FusedRelu, IsDecidedForEachAlgorithm) {
  const Problem problem = next();
  refuse("run 1 fused", CUDNN_STATUS_NOT_SUPPORTED);
  expect_right(problem);
  EXPECT_FALSE(is_fused(problem));
  refuse("run 1 any", CUDNN_STATUS_NOT_SUPPORTED);  // another algorithm takes its place
  expect_right(problem);
  EXPECT_TRUE(is_fused(problem));
}

// A call that has passed its trial and fails later costs itself, not its algorithm.
TEST_P(FusedRelu, GivesWayToTwoPassesByTheSameAlgorithm) {
  for (const cudnnStatus_t status : {CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_EXECUTION_FAILED}) {
    SCOPED_TRACE(static_cast<int>(status));
    const Problem problem = next();
    expect_right(problem);
    EXPECT_TRUE(is_fused(problem));
    refuse("run any fused", status);
    EXPECT_THAT(words_about(problem), HasSubstr("from now on: "));
    ::unsetenv("SIMULATED_CUDNN_REFUSES");
    EXPECT_FALSE(is_fused(problem));
    expect_right(problem);
    refuse("run 1 any", CUDNN_STATUS_NOT_SUPPORTED);  // the other one was not tried before
    expect_right(problem);
    EXPECT_TRUE(is_fused(problem));
    ::unsetenv("SIMULATED_CUDNN_REFUSES");
  }
}

TEST_P(FusedRelu, GivesWayInARecording) {
  const auto record = [&](const Problem& problem, cudnnStatus_t status) {
    expect_right(problem);
    EXPECT_TRUE(is_fused(problem));
    refuse("record any fused", status);
    const Operands operands(problem, 1);
    try {
      backend(gpu).record(gpu, [&] { operands.convolved(problem.options); })->replay();
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const Problem refused = next(), failed = next();
  EXPECT_EQ(record(refused, CUDNN_STATUS_NOT_SUPPORTED), "");
  EXPECT_THAT(record(failed, CUDNN_STATUS_EXECUTION_FAILED), HasSubstr("while it was recorded"));
  ::unsetenv("SIMULATED_CUDNN_REFUSES");
  for (const Problem& problem : {refused, failed}) {
    expect_right(problem);
    EXPECT_FALSE(is_fused(problem));
    refuse("run 1 any", CUDNN_STATUS_NOT_SUPPORTED);
    expect_right(problem);
    EXPECT_TRUE(is_fused(problem));
    ::unsetenv("SIMULATED_CUDNN_REFUSES");
  }
}

// The decision waits for the device.
TEST_P(FusedRelu, IsNotDecidedInARecording) {
  const Problem problem = next();
  const Operands operands(problem, nan);
  const auto recorded = [&] {
    manner("drops_nan");
    Tensor y;
    const auto recording =
        backend(gpu).record(gpu, [&] { y = operands.convolved(problem.options); });
    ::unsetenv("SIMULATED_CUDNN_RELU");
    recording->replay();
    return y.to(Device::cpu());
  };
  EXPECT_FALSE(is_zero(recorded()));
  expect_right(problem);
  EXPECT_TRUE(is_zero(recorded()));
}

TEST_P(FusedRelu, MustNotBeSlowerWhereAlgorithmsAreTimed) {
  manner("slow");
  const Problem asked = next(), timed = next();
  expect_right(asked);
  EXPECT_TRUE(is_fused(asked));
  cuda_settings().autotune = true;
  const Problem fast = next();
  EXPECT_THAT(words_about(fast), HasSubstr("cuDNN adds the bias"));
  EXPECT_TRUE(is_fused(fast));
  manner("slow");
  EXPECT_THAT(words_about(timed), HasSubstr("15.000 ms against 10.000 for ten runs"));
  EXPECT_FALSE(is_fused(timed));
}

TEST_P(FusedRelu, RoundsABiasAsAnOptimizerDoes) {
  Side side(gpu, GetParam().type, GetParam().type, 5);
  for (const char* const how : {"as_requested", "drops_nan"}) {
    manner(how);
    const Problem problem = next();
    const Tensor x = side.activations(problem.x), w = side.weights(problem.w),
                 b = side.parameters({16}), rounded = b.to(GetParam().type);
    // At a place that is no multiple of 16 bytes.
    const Tensor many = Tensor::zeros({17}, GetParam().type, gpu), shifted = many.slice(1, 17);
    shifted.copy_from(rounded);
    const auto y = [&](const Tensor& bias, bool relu) {
      return backend(gpu).conv2d(x, w, bias, problem.options, nullptr, relu);
    };
    for (const bool relu : {true, false}) {
      SCOPED_TRACE(relu);
      // Two passes round the convolution, too, and a bias that is not rounded yet always takes two.
      const bool is_alike = how == std::string("drops_nan") || !relu;
      EXPECT_LE(relative_distance(y(b, relu), y(rounded, relu)),
                is_alike ? 0 : GetParam().tolerance);
      EXPECT_LE(relative_distance(y(shifted, relu), y(rounded, relu)), GetParam().tolerance);
    }
  }
}

// In 16 bits, too.
TEST_P(FusedRelu, IsTwoPassesInFloat32OfOtherOperands) {
  if (GetParam().type == DType::float32) GTEST_SKIP() << "of 16 bits";
  refuse("ask any 16bit", CUDNN_STATUS_NOT_SUPPORTED);
  const Problem problem = next();
  expect_right(problem);
  expect_kept_nan(problem);
  EXPECT_FALSE(is_fused(problem));
}

// As a layer has it that no optimizer computes in 16 bits. Rounding is no launch of its own.
TEST_P(FusedRelu, IsTwoPassesWithABiasThatIsYetToBeRounded) {
  if (GetParam().type == DType::float32) GTEST_SKIP() << "of 16 bits";
  const Problem problem = next();
  expect_right(problem);
  ASSERT_TRUE(is_fused(problem));
  Operands operands(problem, nan);
  operands.b = operands.b.to(DType::float32);
  manner("drops_nan");
  EXPECT_TRUE(is_nan(operands.convolved(problem.options)));

  const Problem other = next();
  manner("drops_nan");
  expect_right(other);
  const auto time_of = [](const Operands& given, const Conv2dOptions& options) {
    return best_time(CudaContext::of(gpu), [&] {
      given.convolved(options);
      return true;
    });
  };
  EXPECT_EQ(time_of(operands, problem.options), time_of(Operands(other, nan), other.options));
}

INSTANTIATE_TEST_SUITE_P(, FusedRelu,
                         ::testing::Values(Precision{"fp32", DType::float32, false, 1e-5},
                                           Precision{"tf32", DType::float32, true, 1e-3},
                                           Precision{"bf16", DType::bfloat16},
                                           Precision{"fp16", DType::float16}),
                         [](const auto& precision) { return std::string(precision.param.name); });

// --- the trial by itself ---

class OwnFusionTrial : public ::testing::Test {
 protected:
  static inline const Device gpu = Device::cuda(0);

  void SetUp() override {
    ASSERT_EQ(why_no_gpu(), std::nullopt);
    y_ = Tensor::zeros({2, 4, 3, 3}, DType::float32, gpu);
  }
  void TearDown() override { cuda_settings() = CudaSettings{}; }

  // Runs a trial of a call that is right and keeps NaN; returns whether it is used.
  bool decide() {
    trial_.run(CudaContext::of(gpu), {y_,
                                      [&](cudnnActivationDescriptor_t, const Tensor& bias) {
                                        if (++calls_ > most_calls_)
                                          return CUDNN_STATUS_EXECUTION_FAILED;
                                        y_.fill(0);
                                        backend(gpu).images().add_bias(y_, bias);
                                        y_.copy_from(backend(gpu).unary(Unary::relu, y_, 0));
                                        return CUDNN_STATUS_SUCCESS;
                                      },
                                      [&] { return is_separate_possible_; }, "a convolution"});
    return trial_.relu() != nullptr;
  }

  FusionTrial trial_;
  Tensor y_;
  int calls_ = 0, most_calls_ = 1000;
  bool is_separate_possible_ = true;
};

TEST_F(OwnFusionTrial, IsRunOnce) {
  EXPECT_TRUE(decide());
  EXPECT_EQ(calls_, 3);
  EXPECT_TRUE(decide());
  EXPECT_EQ(calls_, 3);
}

TEST_F(OwnFusionTrial, TakesAFailureForInfiniteTime) {
  cuda_settings().autotune = true;
  is_separate_possible_ = false;
  EXPECT_TRUE(decide());
}

TEST_F(OwnFusionTrial, TakesAFailureForInfiniteTimeOfTheCall) {
  cuda_settings().autotune = true;
  is_separate_possible_ = false;
  most_calls_ = 5;  // three for the values, and then times
  EXPECT_FALSE(decide());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// --- the simulation itself ---

// What cuDNN's reference does not support.
TEST(SimulatedFusedConvolution, IsRefusedAsInCudnnsReference) {
  ASSERT_EQ(why_no_gpu(), std::nullopt);
  const Device gpu = Device::cuda(0);
  CudaContext& context = CudaContext::of(gpu);
  const Shape x{2, 4, 6, 6}, w{8, 4, 1, 1}, y{2, 8, 6, 6}, bias{1, 8, 1, 1};
  const auto plain = [](const Shape& shape, DType type = DType::float32) {
    return cudnn_tensor(shape, type, CUDNN_TENSOR_NCHW);
  };
  const CudnnFilter filter = cudnn_filter(w, DType::float32, CUDNN_TENSOR_NCHW);
  cudnnConvolutionDescriptor_t made = nullptr;
  ASSERT_EQ(cudnnCreateConvolutionDescriptor(&made), CUDNN_STATUS_SUCCESS);
  const CudnnConvolution convolution(made);
  cudnnSetConvolution2dDescriptor(made, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                  CUDNN_DATA_FLOAT);
  const auto memory = [&](const Shape& shape) { return Tensor::zeros(shape, DType::float32, gpu); };
  const Tensor in = memory(x), weights = memory(w), out = memory(y), added = memory(bias);
  const auto room = context.allocate(1024);
  const auto answer = [&](const CudnnTensor& z, const CudnnTensor& biases,
                          cudnnActivationMode_t mode, cudnnConvolutionFwdAlgo_t algorithm,
                          const void* z_values) {
    const CudnnActivation activation = cudnn_relu(CUDNN_PROPAGATE_NAN);
    cudnnSetActivationDescriptor(activation.get(), mode, CUDNN_PROPAGATE_NAN, 0);
    const float one = 1, zero = 0;
    return cudnnConvolutionBiasActivationForward(
        cudnn_handle(context), &one, plain(x).get(), in.raw(), filter.get(), weights.raw(),
        convolution.get(), algorithm, room->data(), 1024, &zero, z.get(), z_values, biases.get(),
        added.raw(), activation.get(), plain(y).get(), out.raw());
  };
  constexpr auto precomputed = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                 other = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  constexpr auto relu = CUDNN_ACTIVATION_RELU, identity = CUDNN_ACTIVATION_IDENTITY;
  for (const auto algorithm : {precomputed, other})
    EXPECT_EQ(answer(plain(y), plain(bias), relu, algorithm, out.raw()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(answer(plain(y), plain(bias), identity, precomputed, out.raw()), CUDNN_STATUS_SUCCESS);

  constexpr auto refused = CUDNN_STATUS_NOT_SUPPORTED;
  EXPECT_EQ(answer(plain(y), plain(bias), identity, other, out.raw()), refused);
  EXPECT_EQ(answer(plain(y), plain(bias), CUDNN_ACTIVATION_TANH, other, out.raw()), refused);
  for (const Shape& shape : {Shape{1, 4, 1, 1}, Shape{8, 1, 1, 1}, Shape{2, 8, 1, 1}})
    EXPECT_EQ(answer(plain(y), plain(shape), relu, other, out.raw()), refused) << shape.text();
  EXPECT_EQ(answer(plain(y), plain(bias, DType::float16), relu, other, out.raw()), refused);
  EXPECT_EQ(answer(plain(x), plain(bias), relu, other, out.raw()), refused);
  const CudnnTensor channels_last = cudnn_tensor(y, DType::float32, CUDNN_TENSOR_NHWC);
  EXPECT_EQ(answer(channels_last, plain(bias), relu, other, out.raw()), refused);
  EXPECT_EQ(answer(plain(y), plain(bias), relu, other, in.raw()), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(answer(plain(y), plain(bias), relu, other, nullptr), CUDNN_STATUS_BAD_PARAM);
}

}  // namespace
}  // namespace tasuki::testing
