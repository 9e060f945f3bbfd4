// The first losses of train_mnist --gpu against the CPU's.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "device.hpp"
#include "tests/apps/train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

class GpuTraining : public TrainMnist {
 protected:
  void SetUp() override {
    if (const auto reason = why_no_gpu()) GTEST_SKIP() << *reason;
  }

  std::vector<double> losses(const std::string& out, std::vector<std::string> flags) {
    const std::vector<std::string> common = {"-b", "100", "--max-iterations", "100",
                                             "-e", "100", "--log-every",      "1"};
    flags.insert(flags.end(), common.begin(), common.end());
    return values_of(log_of(1, out, flags), "main/loss");
  }
  static double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
};

TEST_F(GpuTraining, MatchesCpuLossesWithMomentum) {
  const std::vector<std::string> flags = {"--optimizer", "momentum_sgd"};
  std::vector<std::string> on_gpu = flags;
  on_gpu.push_back("--gpu");
  const auto expected = losses("cpu", flags), found = losses("gpu", on_gpu);
  ASSERT_EQ(expected.size(), 100);
  expect_near(found, expected, 1e-4);
}

// Adam divides by small numbers: single losses drift apart, their mean does not.
TEST_F(GpuTraining, MatchesMeanCpuLossesWithAdam) {
  const auto expected = losses("cpu", {}), found = losses("gpu", {"--gpu"});
  ASSERT_EQ(expected.size(), 100);
  ASSERT_EQ(found.size(), 100);
  EXPECT_NEAR(mean(found), mean(expected), 5e-3 * mean(expected));
}

TEST_F(GpuTraining, ReplaysOfARecordingAreSteps) {
  const auto plain = losses("off", {"--gpu", "--graph", "off"});
  const auto recorded = losses("on", {"--gpu", "--graph", "on"});
  ASSERT_EQ(plain.size(), 100);
  expect_near(recorded, plain, 1e-6);
}

// The average is computed between recorded steps, and is in the weights' place while recorded
// evaluations read them.
TEST_F(GpuTraining, AveragesWeightsAsTheCpuDoes) {
  const std::vector<std::string> flags = {"--optimizer", "momentum_sgd", "-b", "48", "--epoch",
                                          "3",           "--ema",        "0.9"};
  std::vector<std::string> on_gpu = flags;
  on_gpu.insert(on_gpu.end(), {"--gpu", "--graph", "on"});
  const std::string key = "ema/validation/main/loss";
  const auto expected = values_of(log_of(1, "cpu", flags), key);
  const auto found = values_of(log_of(1, "gpu", on_gpu), key);
  ASSERT_EQ(expected.size(), 3);
  expect_near(found, expected, 1e-4);
  EXPECT_NE(found, values_of(read_log("gpu"), "validation/main/loss"));
}

TEST_F(GpuTraining, LearnsAlikeInOtherPrecisions) {
  const auto expected = losses("fp32", {"--gpu"});
  for (const std::string dtype : {"tf32", "bf16", "fp16"}) {
    SCOPED_TRACE(dtype);
    const auto found = losses(dtype, {"--gpu", "--dtype", dtype});
    ASSERT_EQ(found.size(), 100);
    EXPECT_NE(found, expected);
    EXPECT_NEAR(mean(found), mean(expected), 2e-2 * mean(expected));
  }
}

}  // namespace
}  // namespace tasuki::testing
