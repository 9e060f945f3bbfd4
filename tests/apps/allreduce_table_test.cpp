// The numbers in the table of bench_allreduce.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/json.hpp"
#include "tools/bench_allreduce/table.hpp"

namespace tasuki::program {
namespace {

TEST(AllreduceTable, PercentilesAreMeasuredValues) {
  std::vector<double> seconds(200);
  std::iota(seconds.rbegin(), seconds.rend(), 1.0);  // 200, ..., 1
  const Percentiles found = percentiles_of(seconds);
  EXPECT_EQ(found.least, 1);
  EXPECT_EQ(found.median, 100);
  EXPECT_EQ(found.p90, 180);
  EXPECT_EQ(found.p99, 198);
  EXPECT_EQ(found.most, 200);
  const Percentiles one = percentiles_of({3});
  EXPECT_EQ(one.least, 3);
  EXPECT_EQ(one.p99, 3);
}

// 1 MB between machines with 1 MB/s in each direction.
TEST(AllreduceTable, BoundFollowsFromTheLink) {
  ExchangeRow row{
      .communicator = "flat", .algorithm = "ring", .memory = "private", .count = 250'000};
  row.seconds.median = 4;
  const ExchangeSetting two{.ranks = 4, .nodes = 2, .link_rate = 1e6};
  EXPECT_DOUBLE_EQ(bound_of(row, two).value(), 1);
  EXPECT_NE(text_of(row, two).find("      25 "), std::string::npos) << text_of(row, two);
  EXPECT_EQ(json_of(row, two).at("bound_seconds"), 1);
  EXPECT_DOUBLE_EQ(bound_of(row, {.ranks = 4, .nodes = 4, .link_rate = 1e6}).value(), 1.5);
  row.wire = DType::float16;
  EXPECT_DOUBLE_EQ(bound_of(row, two).value(), 0.5);
  EXPECT_FALSE(bound_of(row, {.ranks = 4, .nodes = 1, .link_rate = 1e6}));
  EXPECT_FALSE(bound_of(row, {.ranks = 4, .nodes = 2}));
  EXPECT_FALSE(json_of(row, {.ranks = 4, .nodes = 2}).contains("bound_seconds"));
}

// nccl-tests' definition.
TEST(AllreduceTable, BusBandwidthFollowsNcclTests) {
  ExchangeRow row{
      .communicator = "flat", .algorithm = "ring", .memory = "private", .count = 250'000'000};
  row.seconds.median = 1;
  const auto json = json_of(row, {.ranks = 4});
  EXPECT_DOUBLE_EQ(json.at("algbw_gb_per_s"), 1);
  EXPECT_DOUBLE_EQ(json.at("busbw_gb_per_s"), 1.5);
}

TEST(AllreduceTable, AlignsColumns) {
  const ExchangeRow row{.communicator = "two_dimensional",
                        .algorithm = "halving-doubling",
                        .memory = "allocated",
                        .count = 1};
  EXPECT_EQ(
      text_of({row.communicator, row.algorithm, row.memory, row.wire, 1, {1e-6, 1e-6, 1e-6, 1e-6}},
              {.ranks = 2})
          .size(),
      table_heading().size());
}

}  // namespace
}  // namespace tasuki::program
