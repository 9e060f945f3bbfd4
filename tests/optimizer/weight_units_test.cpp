// How an arena is divided into units, and the order in which passes use them.
#include "optimizer/weight_units.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "optimizer/unit_order.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;

// Parameters of 16 elements each.
std::vector<ParameterArena::Entry> entries_of(const std::vector<std::string>& paths) {
  std::vector<ParameterArena::Entry> entries;
  for (const std::string& path : paths)
    entries.push_back({path, nullptr, static_cast<std::int64_t>(16 * entries.size()), 16});
  return entries;
}

std::vector<std::string> units_of(const std::vector<std::string>& paths, std::int64_t parameters,
                                  const std::vector<std::string>& patterns = {}) {
  std::vector<std::string> units;
  std::int64_t end = 0, next = 0;
  for (const WeightUnit& unit : weight_units(entries_of(paths), parameters * 64, patterns)) {
    EXPECT_EQ(unit.elements.begin, end);
    EXPECT_EQ(unit.entries.begin, next);
    EXPECT_EQ(unit.elements.size(), 16 * unit.entries.size());
    end = unit.elements.end;
    next = unit.entries.end;
    units.push_back(unit.name + ":" + std::to_string(unit.entries.size()));
  }
  EXPECT_EQ(next, std::ssize(paths));
  return units;
}

TEST(WeightUnits, AreModulesOfATargetedSize) {
  const std::vector<std::string> paths = {"p/out/W",  "p/h1/b/W", "p/h1/b/b",
                                          "p/h1/a/W", "p/h1/a/b", "p/h0/b/W",
                                          "p/h0/b/b", "p/h0/a/W", "p/h0/a/b"};
  EXPECT_THAT(units_of(paths, 100), ElementsAre(":9"));
  EXPECT_THAT(units_of(paths, 4), ElementsAre("p/out:1", "p/h1:4", "p/h0:4"));
  EXPECT_THAT(units_of(paths, 5), ElementsAre("p:5", "p/h0:4"));
  EXPECT_THAT(units_of(paths, 2),
              ElementsAre("p/out:1", "p/h1/b:2", "p/h1/a:2", "p/h0/b:2", "p/h0/a:2"));
}

TEST(WeightUnits, DoNotDivideAModulesOwnParameters) {
  EXPECT_THAT(units_of({"l/W", "l/b"}, 1), ElementsAre("l:2"));
  EXPECT_THAT(units_of({"W"}, 1), ElementsAre(":1"));
  // Its own parameters lie on both sides of a child's.
  EXPECT_THAT(units_of({"l/W", "l/c/W", "l/b", "m/W"}, 1), ElementsAre("l:3", "m:1"));
  EXPECT_THAT(units_of({"l/W", "l/b", "l/c/W", "l/c/b"}, 1), ElementsAre("l:2", "l/c:2"));
}

TEST(WeightUnits, FollowPatterns) {
  const std::vector<std::string> paths = {"p/h1/b/W", "p/h1/a/W", "p/h0/b/W", "p/h0/a/W"};
  EXPECT_THAT(units_of(paths, 100, {"p/h*"}), ElementsAre("p/h1:2", "p/h0:2"));
  EXPECT_THAT(units_of(paths, 1, {"p/h*"}), ElementsAre("p/h1:2", "p/h0:2"));
  EXPECT_THAT(units_of(paths, 100, {"p/h1/a"}), ElementsAre("p/h1/b:1", "p/h1/a:1", "p/h0:2"));
  EXPECT_THAT(units_of(paths, 1, {"p"}), ElementsAre("p:4"));
}

UnitOrder order_of(const std::vector<std::size_t>& forward,
                   const std::vector<std::size_t>& backward) {
  UnitOrder order(4);
  for (const std::size_t unit : forward) order.add(unit, false);
  for (const std::size_t unit : backward) order.add(unit, true);
  order.finish();
  return order;
}

TEST(UnitOrder, GoesForwardAndBack) {
  const UnitOrder order = order_of({0, 1, 2}, {2, 1, 0});
  EXPECT_THAT(order.units(), ElementsAre(0, 1, 2, 1, 0));
  EXPECT_EQ(order.find(1, 0), 1U);
  EXPECT_EQ(order.find(1, 2), 3U);
  EXPECT_EQ(order.find(3, 0), std::nullopt);
  EXPECT_EQ(order.find(2, 3), std::nullopt);
}

TEST(UnitOrder, GathersABlockAgainThatIsRecomputed) {
  const UnitOrder order = order_of({0, 1}, {0, 1, 0});
  EXPECT_FALSE(order.stays(0));
  EXPECT_THAT(order.units(), ElementsAre(0, 1, 0, 1, 0));
}

TEST(UnitOrder, KeepsWhatIsUsedAgain) {
  const UnitOrder tied = order_of({0, 1, 0}, {1, 0});
  EXPECT_TRUE(tied.stays(0));
  EXPECT_THAT(tied.units(), ElementsAre(0, 1));
  const UnitOrder decoder = order_of({0, 1, 2, 1, 2, 3}, {2, 1, 2, 1, 0});
  EXPECT_THAT(decoder.units(), ElementsAre(0, 1, 2, 3, 0));
}

}  // namespace
}  // namespace tasuki
