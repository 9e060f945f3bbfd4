// The checks of tests/nn/extreme_values.hpp on a GPU. Of float32 alone: 16 bits cannot hold the
// places.
#include "tests/nn/extreme_values.hpp"

#include <gtest/gtest.h>

#include "device.hpp"

namespace tasuki::testing {
namespace {

class ExtremeValues : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const auto reason = why_no_gpu()) GTEST_SKIP() << *reason;
  }
};

TEST_P(ExtremeValues, MapsMatchTheirDefinitions) {
  check_extreme_maps(Device::cuda(0));
}
TEST_P(ExtremeValues, PairGradientsMatchTheirDefinitions) {
  check_extreme_pairs(Device::cuda(0));
}
TEST_P(ExtremeValues, ScoresMatchTheirDefinitions) {
  check_extreme_scores(Device::cuda(0));
}
TEST_P(ExtremeValues, LossesMatchTheirDefinitions) {
  check_extreme_losses(Device::cuda(0));
}
TEST_P(ExtremeValues, BatchStatisticsMatchTheirDefinition) {
  check_extreme_batches(Device::cuda(0));
}

INSTANTIATE_TEST_SUITE_P(Precisions, ExtremeValues, ::testing::Values("fp32"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tasuki::testing
