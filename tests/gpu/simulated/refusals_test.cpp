// What cuDNN and cuBLASLt do not support, or fail with: another algorithm, or the other layout,
// takes its place.
#include <cublasLt.h>
#include <cudnn.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <thread>

#include "tensor/attention_operations.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/convolution_plan.hpp"
#include "tensor/geometry.hpp"
#include "tests/apps/train_mnist_job.hpp"
#include "tests/gpu/compare.hpp"
#include "tests/gpu/device.hpp"
#include "tests/support/errors.hpp"

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;

// All of ctest's entries ask for it.
TEST(GpuMemory, IsNaNUntilWrittenOnRequest) {
  ASSERT_EQ(why_no_gpu(), std::nullopt);
  const char* const asked = std::getenv("TASUKI_CHECK_MEMORY");
  if (asked == nullptr || std::string_view(asked) != "1")
    GTEST_SKIP() << "TASUKI_CHECK_MEMORY is not 1";
  for (int use = 0; use < 2; ++use) {  // a new block, and one that was written
    const Tensor values = Tensor::empty({1000}, DType::float32, Device::cuda(0));
    EXPECT_TRUE(std::isnan(values.to(Device::cpu()).data<float>()[999])) << use;
    values.fill(0);
  }
}

// The wider set: whatever says that this is not the way.
constexpr std::array<cudnnStatus_t, 6> unsupported = {CUDNN_STATUS_BAD_PARAM,
                                                      CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                                                      CUDNN_STATUS_NOT_SUPPORTED,
                                                      CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
                                                      CUDNN_STATUS_NOT_SUPPORTED_LAYOUT,
                                                      CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH};
constexpr std::array<cudnnStatus_t, 3> failures = {
    CUDNN_STATUS_INTERNAL_ERROR, CUDNN_STATUS_EXECUTION_FAILED, CUDNN_STATUS_NOT_INITIALIZED};
constexpr std::array<cublasStatus_t, 3> product_failures = {
    CUBLAS_STATUS_EXECUTION_FAILED, CUBLAS_STATUS_INTERNAL_ERROR, CUBLAS_STATUS_ALLOC_FAILED};

class Refusals : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override { ASSERT_EQ(why_no_gpu(), std::nullopt); }
  void TearDown() override {
    ::unsetenv("SIMULATED_CUDNN_REFUSES");
    ::unsetenv("SIMULATED_CUBLASLT_REFUSES");
  }

  // See tests/support/simulated_cuda/refusals.hpp.
  static void refuse(const std::string& what, cudnnStatus_t status) {
    ::setenv("SIMULATED_CUDNN_REFUSES",
             fmt::format("{} {}", what, static_cast<int>(status)).c_str(), 1);
  }

  static void refuse_product(const std::string& what, cublasStatus_t status) {
    ::setenv("SIMULATED_CUBLASLT_REFUSES",
             fmt::format("{} {}", what, static_cast<int>(status)).c_str(), 1);
  }

  // A convolution and its gradients, of a new shape each time, because the choice for a shape is
  // kept.
  struct Convolution {
    Shape x, w;
    Conv2dOptions options{1, 1, 1, 1, 1, 1, 1};

    bool adds = false;  // gradients of weights are added

    explicit Convolution(std::int64_t height) : x{2, 8, height, 6}, w{6, 8, 3, 3} {}
    Convolution(const Shape& x, const Shape& w, const Conv2dOptions& options)
        : x(x), w(w), options(options) {}
    Results on(Side& side) const {
      const ConvolutionGeometry geometry(x, w, options);
      const Tensor image = side.activations(x), slopes = side.activations(geometry.y);
      const Tensor weights = side.weights(w), dw = side.destination(w, adds);
      side.backend().conv2d_backward_weights(image, slopes, dw, options, adds);
      return {{"y", side.backend().conv2d(image, weights, {}, options)},
              {"dx", side.backend().conv2d_backward_data(slopes, weights, x, options)},
              {"dw", dw}};
    }
  };
  static Convolution next() {
    static std::int64_t height = 3;
    return Convolution(++height);
  }

  static std::int64_t next_batch() {
    static std::int64_t items = 2;
    return ++items;
  }

  // A fully connected layer and its gradients.
  struct Layer {
    std::int64_t items;
    bool adds = false;

    Results on(Side& side) const {
      const Tensor x = side.activations({items, 6}), dy = side.activations({items, 4});
      const Tensor w = side.weights({4, 6}), b = side.weights({4});
      const Tensor dw = side.destination({4, 6}, adds), db = side.destination({4}, false);
      side.backend().linear_backward_weights(x, dy, dw, adds, db);
      return {{"y", side.backend().linear(x, w, b, true)},
              {"dx", side.backend().linear_backward_data(dy, w)},
              {"dw", dw},
              {"db", db}};
    }
  };
  static Layer next_layer() {
    static std::int64_t items = 3;
    return Layer{++items};
  }

  template <class Problem>
  static Results found_for(const Problem& problem) {
    Side side(Device::cuda(0), GetParam(), GetParam(), 5);
    return problem.on(side);
  }
  template <class Problem>
  static Results expected_for(const Problem& problem) {
    Side side(Device::cpu(), DType::float32, GetParam(), 5);
    return problem.on(side);
  }
  static double tolerance() { return GetParam() == DType::float32 ? 1e-5 : 1e-2; }

  static void expect_right(const Layer& layer) {
    EXPECT_TRUE(agree(found_for(layer), expected_for(layer), tolerance()));
  }
  // `are_plain`: results are not in the order of channels last.
  static void expect_right(const Convolution& convolution, bool are_plain) {
    const Results found = found_for(convolution);
    EXPECT_TRUE(agree(found, expected_for(convolution), tolerance()));
    EXPECT_EQ(found[0].value.is_plain(), are_plain);
    EXPECT_EQ(found[1].value.is_plain(), are_plain);
    EXPECT_EQ(found[0].value.dtype(), GetParam());
    EXPECT_EQ(found[1].value.dtype(), GetParam());
  }
  // In which the convolution and its gradients are computed.
  static void expect_type(const Convolution& convolution, DType type) {
    const ConvolutionGeometry geometry(convolution.x, convolution.w, convolution.options);
    for (const ConvolutionPass pass : {ConvolutionPass::forward, ConvolutionPass::backward_data,
                                       ConvolutionPass::backward_weights})
      EXPECT_EQ(
          convolution_plan(CudaContext::of(Device::cuda(0)), {pass, geometry, GetParam()}).type(),
          type);
  }
  template <class Problem>
  static std::string error_of(const Problem& problem) {
    return testing::error_of([&] { found_for(problem); });
  }

  // float32 lies plain where nothing is refused, 16 bits channels last.
  const bool plain_first = GetParam() == DType::float32;
  const std::string first = plain_first ? "plain" : "channels_last";
};

TEST_P(Refusals, SelectAnotherAlgorithm) {
  for (const cudnnStatus_t status : unsupported) {
    SCOPED_TRACE(static_cast<int>(status));
    for (const char* moment : {"offer", "workspace", "run"}) {
      SCOPED_TRACE(moment);
      const Convolution convolution = next();
      refuse(fmt::format("{} 1 any", moment), status);
      expect_right(convolution, plain_first);
      // From then on, without another try.
      refuse("run 1 any", CUDNN_STATUS_EXECUTION_FAILED);
      expect_right(convolution, plain_first);
      refuse("run any any", CUDNN_STATUS_EXECUTION_FAILED);
      EXPECT_NE(error_of(convolution), "(nothing thrown)");
    }
  }
}

// By cuDNN or by our kernels, which keep other statistics.
struct Attention {
  std::int64_t width = 16;

  AttentionResult forward(Side& side, const Tensor& qkv) const {
    return side.backend().attention().attention({qkv, 0}, {qkv, 2 * width}, {qkv, 4 * width},
                                                options());
  }
  Results on(Side& side) const {
    const Tensor qkv = side.activations({2, 40, 6 * width}),
                 dy = side.activations({2, 40, 2 * width});
    const Tensor gradients = side.activations(qkv.shape());
    const AttentionResult result = forward(side, qkv);
    side.backend().attention().attention_gradient({qkv, 0}, {qkv, 2 * width}, {qkv, 4 * width},
                                                  result, dy, options(), {gradients, 0},
                                                  {gradients, 2 * width}, {gradients, 4 * width});
    return {{"y", result.y}, {"gradients", gradients}};
  }
  bool is_by_cudnn(DType type) const {
    Side side(Device::cuda(0), type, type, 5);
    return forward(side, side.activations({2, 40, 6 * width})).statistics.shape().rank() == 3;
  }

 private:
  AttentionOptions options() const { return {2, width, 0.25f, true}; }
};

// A thread keeps what it has found for a shape.
void in_a_thread(const std::function<void()>& work) {
  std::thread(work).join();
}

TEST_P(Refusals, LeaveAttentionToOurKernels) {
  for (const cudnnStatus_t status : unsupported)
    for (const char* moment : {"ask", "offer"})
      for (const char* products : {"any", "5"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", moment, products, static_cast<int>(status)));
        refuse(fmt::format("{} {} graph", moment, products), status);
        in_a_thread([&] {
          EXPECT_TRUE(agree(found_for(Attention()), expected_for(Attention()), tolerance()));
          EXPECT_EQ(Attention().is_by_cudnn(GetParam()),
                    GetParam() != DType::float32 && products == std::string("5"));
        });
      }
  // Where it fails when it runs, there is nothing to compute it again from.
  if (GetParam() == DType::float32) return;
  refuse("run any graph", CUDNN_STATUS_EXECUTION_FAILED);
  in_a_thread([] { EXPECT_THAT(error_of(Attention()), HasSubstr("cudnnBackendExecute failed")); });
}

// Versions and devices that cuDNN's attention is not for, or not all of it.
TEST_P(Refusals, OfVersionsAndDevicesLeaveAttentionToOurKernels) {
  if (GetParam() == DType::float32) GTEST_SKIP() << "cuDNN is asked for 16 bits only";
  const auto expect = [](const char* variable, const char* value, const Attention& attention,
                         bool is_by_cudnn) {
    SCOPED_TRACE(fmt::format("{}={}, width {}", variable, value, attention.width));
    ::setenv(variable, value, 1);
    in_a_thread([&] {
      EXPECT_EQ(attention.is_by_cudnn(GetParam()), is_by_cudnn);
      EXPECT_TRUE(agree(found_for(attention), expected_for(attention), tolerance()));
    });
    ::unsetenv(variable);
  };
  expect("SIMULATED_CUDNN_VERSION", "91001", {}, false);
  expect("SIMULATED_CUDNN_VERSION", "91002", {}, true);
  expect("SIMULATED_CUDNN_VERSION", "91500", {}, true);
}

TEST_P(Refusals, SelectTheOtherLayout) {
  for (const cudnnStatus_t status : unsupported) {
    SCOPED_TRACE(static_cast<int>(status));
    for (const char* moment : {"ask", "offer", "workspace", "run"}) {
      SCOPED_TRACE(moment);
      const Convolution convolution = next();
      refuse(fmt::format("{} any {}", moment, first), status);
      ::testing::internal::CaptureStderr();
      expect_right(convolution, !plain_first);
      // Only what was chosen before is given up with a word: each of three passes.
      EXPECT_EQ(count_of(::testing::internal::GetCapturedStderr(), "from now on it is computed in"),
                moment == std::string("run") ? 3 : 0);
      expect_right(convolution, !plain_first);
      expect_type(convolution, GetParam());
    }
  }
}

TEST_P(Refusals, AllowPaddingChannelsForTensorCores) {
  refuse("run 9 any", CUDNN_STATUS_NOT_SUPPORTED);
  const Convolution colours({2, 3, 9, 8}, {8, 3, 3, 3}, {1, 1, 1, 1, 1, 1, 1});
  expect_right(colours, plain_first);
  const ConvolutionGeometry geometry(colours.x, colours.w, colours.options);
  const auto inputs = [&](ConvolutionPass pass) {
    return convolution_plan(CudaContext::of(Device::cuda(0)), {pass, geometry, GetParam()})
        .inputs();
  };
  const std::int64_t filled_up = plain_first ? 3 : 8;
  EXPECT_EQ(inputs(ConvolutionPass::forward), filled_up);
  EXPECT_EQ(inputs(ConvolutionPass::backward_weights), filled_up);
  EXPECT_EQ(inputs(ConvolutionPass::backward_data), 3);
}

// Numbers of channels, groups and dilation for which cuDNN may have nothing in 16 bits.
TEST_P(Refusals, FallBackToFloat32) {
  const std::vector<Convolution> irregular = {
      Convolution({2, 5, 7, 8}, {9, 5, 2, 3}, {1, 1, 1, 1, 1, 1, 1}),
      Convolution({2, 8, 12, 12}, {8, 8, 3, 3}, {1, 1, 2, 2, 2, 2, 1}),
      Convolution({2, 16, 8, 8}, {32, 4, 3, 3}, {1, 1, 1, 1, 1, 1, 4}),
      Convolution({2, 16, 9, 8}, {16, 1, 3, 3}, {2, 2, 1, 1, 1, 1, 16})};
  for (const bool adds : {false, true})
    for (const char* moment : {"ask", "offer", "workspace", "run"})
      for (Convolution convolution : irregular) {
        convolution.x[0] = next_batch();
        convolution.adds = adds;
        SCOPED_TRACE(fmt::format("{}, {}", moment, convolution.x.text()));
        refuse(fmt::format("{} any irregular_16bit", moment), CUDNN_STATUS_NOT_SUPPORTED);
        expect_right(convolution, true);
        expect_type(convolution, DType::float32);
      }
  refuse("ask any irregular_16bit", CUDNN_STATUS_NOT_SUPPORTED);
  const Convolution regular({2, 8, 8, 8}, {8, 8, 3, 3}, {1, 1, 1, 1, 1, 1, 1});
  expect_right(regular, plain_first);
  expect_type(regular, GetParam());
}

TEST_P(Refusals, AreReportedInOneLineWithoutAlternatives) {
  for (const char* moment : {"ask", "offer", "workspace"}) {
    SCOPED_TRACE(moment);
    refuse(fmt::format("{} any any", moment), CUDNN_STATUS_NOT_SUPPORTED);
    const std::string error = error_of(next());
    EXPECT_NE(error.find("algorithm for"), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
  refuse("run any any", CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_THAT(error_of(next()),
              HasSubstr("cudnnConvolutionBackwardFilter failed: no algorithm is left"));
}

// What is not a refusal must not be taken for one.
TEST_P(Refusals, AreDistinguishedFromFailures) {
  for (const cudnnStatus_t status : failures) {
    SCOPED_TRACE(static_cast<int>(status));
    for (const char* moment : {"ask", "workspace", "run"}) {
      SCOPED_TRACE(moment);
      refuse(fmt::format("{} any any", moment), status);
      EXPECT_THAT(error_of(next()), HasSubstr(" failed: "));
    }
  }
  refuse("run 1 any", CUDNN_STATUS_NOT_INITIALIZED);
  EXPECT_THAT(error_of(next()), HasSubstr("cudnnConvolutionBackwardFilter failed: "));
}

// It leaves a result that is spoilt, and an error behind that the next kernel must not find.
TEST_P(Refusals, FailingAlgorithmIsReplaced) {
  for (const cudnnStatus_t status :
       {CUDNN_STATUS_INTERNAL_ERROR, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
        CUDNN_STATUS_EXECUTION_FAILED, CUDNN_STATUS_EXECUTION_FAILED_CUDART})
    for (const bool adds : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, {}", static_cast<int>(status), adds ? "added" : "written"));
      Convolution convolution = next();
      convolution.adds = adds;
      refuse("run 1 any", status);
      expect_right(convolution, plain_first);
      refuse("run any any", status);
      const std::string error = error_of(convolution);
      EXPECT_THAT(error, HasSubstr("algorithm 0 of cuDNN"));
      // What the first one failed with is said when none is left.
      EXPECT_EQ(error.find("tried: algorithm 1 of cuDNN") == std::string::npos,
                adds && GetParam() == DType::float32)
          << error;
      EXPECT_THAT(error_of(convolution), HasSubstr("no algorithm is left; tried: algorithm 1"));
    }
}

TEST_P(Refusals, FailingProductAlgorithmIsReplaced) {
  for (const cublasStatus_t status : product_failures)
    for (const char* which : {"1 any", "any fused"})
      for (const bool adds : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{}, {}, {}", static_cast<int>(status), which, adds ? "added" : "written"));
        Layer layer = next_layer();
        layer.adds = adds;
        refuse_product(fmt::format("run {}", which), status);
        expect_right(layer);
      }
  const Layer layer = next_layer();
  refuse_product("run any any", CUBLAS_STATUS_EXECUTION_FAILED);
  const std::string error = error_of(layer);
  EXPECT_THAT(error, HasSubstr("cublasLtMatmul failed: no algorithm is left; tried: algorithm 1, "
                               "fused of cuBLASLt: "));
  EXPECT_THAT(error, HasSubstr("; algorithm 6 of cuBLASLt: "));
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  refuse_product("run any any", CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_THAT(error_of(next_layer()), HasSubstr("cublasLtMatmul failed: "));
}

// The recording is broken by then; the next one, and what is done without it, takes the next
// algorithm.
TEST_P(Refusals, FailingAlgorithmEndsTheRecording) {
  const Device gpu = Device::cuda(0);
  Side side(gpu, GetParam(), GetParam(), 5);
  const Tensor x = side.activations({2, 4, 3, 6}), w = side.weights({6, 4, 3, 3});
  const Tensor rows = side.activations({3, 6}), matrix = side.weights({4, 6});
  const auto convolve = [&] { return backend(gpu).conv2d(x, w, {}, {1, 1, 1, 1, 1, 1, 1}); };
  const auto multiply = [&] { return backend(gpu).linear(rows, matrix, {}, false); };
  const Results expected = {{"convolution", convolve().clone()}, {"product", multiply().clone()}};

  refuse("record 1 any", CUDNN_STATUS_EXECUTION_FAILED);
  refuse_product("record 1 any", CUBLAS_STATUS_EXECUTION_FAILED);
  Tensor y, z;
  EXPECT_THAT(testing::error_of([&] { backend(gpu).record(gpu, [&] { y = convolve(); }); }),
              HasSubstr("cudnnConvolutionForward failed while it was recorded: algorithm 1"));
  EXPECT_THAT(testing::error_of([&] { backend(gpu).record(gpu, [&] { z = multiply(); }); }),
              HasSubstr("cublasLtMatmul failed while it was recorded: algorithm 2"));
  EXPECT_TRUE(agree({{"convolution", convolve()}, {"product", multiply()}}, expected, 1e-7));
  const auto recording = backend(gpu).record(gpu, [&] {
    y = convolve();
    z = multiply();
  });
  recording->replay();
  EXPECT_TRUE(agree({{"convolution", y}, {"product", z}}, expected, 1e-7));
}

INSTANTIATE_TEST_SUITE_P(Types, Refusals, ::testing::Values(DType::float32, DType::bfloat16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

// A training whose recording fails continues with steps that are not recorded.
class FailingTraining : public TrainMnist {
 protected:
  Finished train(const std::string& out, const std::string& graph, const std::string& refused) {
    return run_program(program(out, {"-b", "40", "--max-iterations", "12", "--log-every", "1",
                                     "--verbose", "--gpu", "--graph", graph}),
                       60, {{"SIMULATED_CUBLASLT_REFUSES", refused}});
  }
};

TEST_F(FailingTraining, ContinuesWithoutRecordings) {
  const Finished plain = train("plain", "off", ""),
                 failing = train("failing", "auto", "record any any 13");
  EXPECT_EQ(plain.exit_code, 0) << plain.all();
  EXPECT_EQ(failing.exit_code, 0) << failing.all();
  EXPECT_EQ(count_of(failing.err, "steps are not recorded as a graph: cublasLtMatmul failed while"),
            1)
      << failing.all();
  const auto expected = values_of(read_log("plain"), "main/loss");
  EXPECT_EQ(expected.size(), 12U);
  EXPECT_EQ(values_of(read_log("failing"), "main/loss"), expected);
}

}  // namespace
}  // namespace tasuki::testing
