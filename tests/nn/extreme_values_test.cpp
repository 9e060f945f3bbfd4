#include "extreme_values.hpp"

#include <gtest/gtest.h>

namespace tasuki::testing {
namespace {

TEST(ExtremeValues, MapsFollowTheirDefinitions) {
  check_extreme_maps(Device::cpu());
}
TEST(ExtremeValues, GradientsOfPairsFollowTheirDefinitions) {
  check_extreme_pairs(Device::cpu());
}
TEST(ExtremeValues, ScoresFollowTheirDefinitions) {
  check_extreme_scores(Device::cpu());
}
TEST(ExtremeValues, LossesFollowTheirDefinitions) {
  check_extreme_losses(Device::cpu());
}
TEST(ExtremeValues, BatchesHaveTheStatisticsOfTheirDefinition) {
  check_extreme_batches(Device::cpu());
}

}  // namespace
}  // namespace tasuki::testing
