// What cuDNN does not support: another algorithm, or the other layout, takes its place.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "compare.hpp"
#include "device.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/tensor/convolution_geometry.hpp"

namespace tasuki::testing {
namespace {

// The wider set: whatever says that this is not the way.
constexpr std::array<cudnnStatus_t, 6> unsupported = {CUDNN_STATUS_BAD_PARAM,
                                                      CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                                                      CUDNN_STATUS_NOT_SUPPORTED,
                                                      CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
                                                      CUDNN_STATUS_NOT_SUPPORTED_LAYOUT,
                                                      CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH};
constexpr std::array<cudnnStatus_t, 3> failures = {
    CUDNN_STATUS_INTERNAL_ERROR, CUDNN_STATUS_EXECUTION_FAILED, CUDNN_STATUS_NOT_INITIALIZED};

class Refusals : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override { ASSERT_EQ(why_no_gpu(), std::nullopt); }
  void TearDown() override { ::unsetenv("SIMULATED_CUDNN_REFUSES"); }

  // See tests/support/simulated_cuda/refusals.hpp.
  static void refuse(const std::string& what, cudnnStatus_t status) {
    ::setenv("SIMULATED_CUDNN_REFUSES",
             fmt::format("{} {}", what, static_cast<int>(status)).c_str(), 1);
  }

  // A convolution and its gradients, of a shape of its own: what is chosen for a shape is kept.
  struct Convolution {
    Shape x, w;
    Conv2dOptions options{1, 1, 1, 1, 1, 1, 1};

    explicit Convolution(std::int64_t height) : x{2, 4, height, 6}, w{6, 4, 3, 3} {}
    Results on(Side& side) const {
      const ConvolutionGeometry geometry(x, w, options);
      const Tensor image = side.activations(x), slopes = side.activations(geometry.y);
      const Tensor weights = side.weights(w), dw = side.destination(w, false);
      side.backend().conv2d_backward_weights(image, slopes, dw, options, false);
      return {{"y", side.backend().conv2d(image, weights, {}, options)},
              {"dx", side.backend().conv2d_backward_data(slopes, weights, x, options)},
              {"dw", dw}};
    }
  };
  static Convolution next() {
    static std::int64_t height = 3;
    return Convolution(++height);
  }

  // Whether results are in the order of channels last.
  static void expect_right(const Convolution& convolution, bool are_plain) {
    Side tested(Device::cuda(0), GetParam(), GetParam(), 5);
    Side reference(Device::cpu(), DType::float32, GetParam(), 5);
    const Results found = convolution.on(tested);
    EXPECT_TRUE(
        agree(found, convolution.on(reference), GetParam() == DType::float32 ? 1e-5 : 1e-2));
    EXPECT_EQ(found[0].value.is_plain(), are_plain);
    EXPECT_EQ(found[1].value.is_plain(), are_plain);
  }
  static std::string error_of(const Convolution& convolution) {
    Side side(Device::cuda(0), GetParam(), GetParam(), 5);
    try {
      convolution.on(side);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  // float32 lies plain where nothing is refused, 16 bits channels last.
  const bool plain_first = GetParam() == DType::float32;
  const std::string first = plain_first ? "plain" : "channels_last";
};

TEST_P(Refusals, OfAnAlgorithmAnotherTakesItsPlace) {
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
      refuse("run 0 any", CUDNN_STATUS_EXECUTION_FAILED);
      EXPECT_NE(error_of(convolution), "");
    }
  }
}

TEST_P(Refusals, OfALayoutTheOtherTakesItsPlace) {
  for (const cudnnStatus_t status : unsupported) {
    SCOPED_TRACE(static_cast<int>(status));
    for (const char* moment : {"ask", "offer", "workspace"}) {
      SCOPED_TRACE(moment);
      refuse(fmt::format("{} any {}", moment, first), status);
      expect_right(next(), !plain_first);
    }
  }
}

TEST_P(Refusals, OfEverythingAreOneLine) {
  for (const char* moment : {"ask", "offer", "workspace"}) {
    SCOPED_TRACE(moment);
    refuse(fmt::format("{} any any", moment), CUDNN_STATUS_NOT_SUPPORTED);
    const std::string error = error_of(next());
    EXPECT_NE(error.find("algorithm for"), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
  refuse("run any any", CUDNN_STATUS_NOT_SUPPORTED);
  const std::string error = error_of(next());
  EXPECT_NE(error.find("cudnnConvolutionBackwardFilter failed"), std::string::npos) << error;
}

// What is no refusal must not be taken for one.
TEST_P(Refusals, AreNotFailures) {
  for (const cudnnStatus_t status : failures) {
    SCOPED_TRACE(static_cast<int>(status));
    for (const char* moment : {"ask", "workspace", "run"}) {
      SCOPED_TRACE(moment);
      refuse(fmt::format("{} any any", moment), status);
      const std::string error = error_of(next());
      EXPECT_NE(error.find(" failed: "), std::string::npos) << error;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Refusals, ::testing::Values(DType::float32, DType::bfloat16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace tasuki::testing
