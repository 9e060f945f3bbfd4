// Data made up on the fly.
#include "dataset/synthetic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "examples.hpp"

namespace tasuki {
namespace {

struct Examples {
  std::vector<std::byte> values;
  std::vector<std::int32_t> labels;
  friend bool operator==(const Examples&, const Examples&) = default;
};

Examples read(const SyntheticDataset& dataset, const std::vector<std::int64_t>& indices) {
  Examples examples;
  for (const std::int64_t i : indices) {
    const std::vector<std::byte> values = testing::stored_in(dataset, "x", i);
    examples.values.insert(examples.values.end(), values.begin(), values.end());
    examples.labels.push_back(testing::label_in(dataset, i));
  }
  return examples;
}

TEST(Synthetic, ExamplesDependOnlyOnTheirNumber) {
  const SyntheticDataset dataset({.count = 100, .example_shape = {3, 5, 7}, .seed = 4});
  const SyntheticDataset larger(
      {.count = 1'000'000'000'000, .example_shape = {3, 5, 7}, .seed = 4});
  const Examples together = read(dataset, {7, 99});
  const Examples alone = read(larger, {99});
  EXPECT_EQ(together.labels[1], alone.labels[0]);
  EXPECT_TRUE(std::equal(alone.values.begin(), alone.values.end(), together.values.begin() + 105));
  EXPECT_EQ(read(larger, {999'999'999'999}).values.size(), 105u);
}

TEST(Synthetic, DiffersBetweenSeedsAndSplits) {
  const SyntheticOptions options{.count = 10, .example_shape = {64}};
  SyntheticOptions other_seed = options, other_split = options;
  other_seed.seed = 1;
  other_split.split = 1;
  const Examples examples = read(SyntheticDataset(options), {0, 1, 2, 3});
  EXPECT_EQ(examples, read(SyntheticDataset(options), {0, 1, 2, 3}));
  EXPECT_NE(examples, read(SyntheticDataset(other_seed), {0, 1, 2, 3}));
  EXPECT_NE(examples, read(SyntheticDataset(other_split), {0, 1, 2, 3}));
}

TEST(Synthetic, CoversAllClassesEvenly) {
  const SyntheticDataset dataset({.count = 5000, .example_shape = {1}, .classes = 5});
  std::vector<std::int64_t> all(5000);
  std::iota(all.begin(), all.end(), 0);
  std::map<std::int32_t, int> counts;
  for (const std::int32_t label : read(dataset, all).labels) ++counts[label];
  ASSERT_EQ(counts.size(), 5u);
  for (const auto& [label, count] : counts) {
    EXPECT_TRUE(0 <= label && label < 5);
    EXPECT_NEAR(count, 1000, 150);  // five standard deviations
  }
}

// What is learnt on one split must serve on another: class means of the first, nearest mean on the
// second.
TEST(Synthetic, HasLearnableClasses) {
  constexpr std::int64_t classes = 4, pixels = 100, count = 400;
  SyntheticOptions options{.count = count, .example_shape = {pixels}, .classes = classes};
  std::vector<std::int64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  const Examples known = read(SyntheticDataset(options), all);
  options.split = 1;
  const Examples fresh = read(SyntheticDataset(options), all);

  std::vector<std::vector<double>> mean(classes, std::vector<double>(pixels));
  std::vector<int> seen(classes);
  const auto value = [](const Examples& examples, std::int64_t i, std::int64_t j) {
    return std::to_integer<int>(examples.values[static_cast<std::size_t>(i * pixels + j)]);
  };
  for (int i = 0; i < count; ++i) {
    ++seen[known.labels[i]];
    for (int j = 0; j < pixels; ++j) mean[known.labels[i]][j] += value(known, i, j);
  }
  int correct = 0;
  for (int i = 0; i < count; ++i) {
    std::vector<double> distance(classes);
    for (int c = 0; c < classes; ++c)
      for (int j = 0; j < pixels; ++j) {
        const double difference = mean[c][j] / seen[c] - value(fresh, i, j);
        distance[c] += difference * difference;
      }
    const auto nearest = std::min_element(distance.begin(), distance.end()) - distance.begin();
    correct += nearest == fresh.labels[i];
  }
  EXPECT_GT(correct, count * 9 / 10);
}

}  // namespace
}  // namespace tasuki
