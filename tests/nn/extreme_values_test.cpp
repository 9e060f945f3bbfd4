#include "extreme_values.hpp"

#include <gtest/gtest.h>

namespace tasuki::testing {
namespace {

TEST(ExtremeValues, MapsMatchTheirDefinitions) {
  check_extreme_maps(Device::cpu());
}
TEST(ExtremeValues, PairGradientsMatchTheirDefinitions) {
  check_extreme_pairs(Device::cpu());
}
TEST(ExtremeValues, ScoresMatchTheirDefinitions) {
  check_extreme_scores(Device::cpu());
}
TEST(ExtremeValues, LossesMatchTheirDefinitions) {
  check_extreme_losses(Device::cpu());
}
TEST(ExtremeValues, BatchStatisticsMatchTheirDefinition) {
  check_extreme_batches(Device::cpu());
}

}  // namespace
}  // namespace tasuki::testing
