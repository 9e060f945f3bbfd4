// The largest batch is found by two small steps and tried out.
#include "training/batch_memory.hpp"

#include <gtest/gtest.h>

#include <new>

#include "small_run.hpp"
#include "tensor/backend.hpp"
#include "tensor/out_of_memory.hpp"
#include "tests/support/sequences.hpp"

namespace tasuki {
namespace {

// A device of `capacity` bytes whose steps take fixed + n * each.
struct FakeDevice {
  std::size_t capacity, fixed, each;
  double at_large = 1;  // factor of `each` from 100 examples on
  std::vector<std::int64_t> tried = {}, announced = {};

  std::size_t step(std::int64_t n) {
    tried.push_back(n);
    const auto examples = static_cast<std::size_t>(n);
    const std::size_t bytes =
        fixed +
        static_cast<std::size_t>(static_cast<double>(examples * each) * (n >= 100 ? at_large : 1));
    if (bytes > capacity && n % 2 == 0)
      throw OutOfMemory({.device = Device::cpu(), .requested = bytes});
    if (bytes > capacity) throw std::bad_alloc();
    return bytes;
  }
  std::int64_t find(std::int64_t limit) {
    return find_largest_batch({.peaks_of = [this](std::int64_t n) { return std::vector{step(n)}; },
                               .capacities = {capacity},
                               .limit = limit,
                               .trying = [this](std::int64_t n) { announced.push_back(n); }});
  }
};

TEST(FindLargestBatch, PredictsProportionalGrowth) {
  FakeDevice device{100'000, 1'000, 7};
  EXPECT_EQ(device.find(1 << 20), 99'000 / 7);
  EXPECT_EQ(device.tried, (std::vector<std::int64_t>{16, 32, 14142}));
  EXPECT_EQ(device.announced, (std::vector<std::int64_t>{14142}));
}

TEST(FindLargestBatch, StaysWithinTheLimit) {
  FakeDevice device{100'000, 1'000, 7};
  EXPECT_EQ(device.find(500), 500);
  EXPECT_EQ(device.find(3), 3);
}

TEST(FindLargestBatch, ShrinksUntilARealStepSucceeds) {
  FakeDevice device{100'000, 1'000, 7, 1.5};
  const std::int64_t found = device.find(1 << 20);
  EXPECT_LE(found, 99'000 * 2 / (7 * 3));
  EXPECT_GT(found, 99'000 * 2 / (7 * 3) * 8 / 10);
  EXPECT_EQ(device.tried.back(), found);
}

TEST(FindLargestBatch, HandlesFewOrNoFittingExamples) {
  EXPECT_EQ((FakeDevice{100, 20, 30}).find(1000), 2);
  EXPECT_EQ((FakeDevice{100, 20, 79}).find(1000), 1);
  EXPECT_EQ((FakeDevice{100, 20, 81}).find(1000), 0);
}

TEST(FindLargestBatch, UsesTheMinimumOfAllRanks) {
  FakeDevice device{100'000, 1'000, 7};
  int asked = 0;
  const auto other_rank_has_less = [&asked](std::int64_t n) {
    ++asked;
    return n > 1 ? std::min<std::int64_t>(n, 40) : n;
  };
  EXPECT_EQ(
      find_largest_batch({.peaks_of = [&](std::int64_t n) { return std::vector{device.step(n)}; },
                          .capacities = {device.capacity},
                          .limit = 1000,
                          .least = other_rank_has_less}),
      40);
  EXPECT_EQ(asked, 2) << "once for the size, once for whether it fits everywhere";
}

// A batch of which the second device has a third.
TEST(FindLargestBatch, FitsEachDevicesPart) {
  FakeDevice large{1'000'000, 1'000, 7}, small{10'000, 1'000, 7};
  const std::int64_t found =
      find_largest_batch({.peaks_of =
                              [&](std::int64_t n) {
                                return std::vector{large.step(n - n / 3), small.step(n / 3)};
                              },
                          .capacities = {large.capacity, small.capacity},
                          .limit = 1 << 20});
  EXPECT_LE(found / 3, 9'000 / 7);
  EXPECT_GT(found / 3, 9'000 / 7 * 8 / 10);
}

TEST(ZeroBatch, UsesTheLongestExample) {
  const auto dataset = testing::sequences(20, /*pad_to=*/3);  // of at most 4 tokens
  const DatasetHeader header = with_longest_examples(*source_of(*dataset));
  EXPECT_EQ(with_longest_examples(*dataset).fields, header.fields);
  EXPECT_EQ(header.fields[0].shape, Shape{4});
  const Batch batch = zero_batch(5, header, DType::float32, Device::cpu());
  EXPECT_EQ(batch["tokens"].shape(), (Shape{5, 6}));
  EXPECT_EQ(batch["bytes"].shape(), (Shape{5, 2}));
  EXPECT_EQ(batch_bytes(header), 6U * 4 + 2 * 8 + 4);
  // What a field says of itself is not read.
  DatasetHeader limited = dataset->header();
  limited.fields[0].shape = {50};
  EXPECT_FALSE(has_unknown_lengths(limited));
  EXPECT_EQ(with_longest_examples(*source_of(InMemoryDataset(limited))).fields, limited.fields);
}

TEST(MeasureStep, IsProportionalToTheBatch) {
  const auto model = testing::small_model();
  const auto optimizer = create_optimizer("sgd");
  optimizer->setup(*model);
  const DatasetHeader header = testing::synthetic(1)->header();
  const auto measure = [&](std::int64_t n) {
    return measure_step(n, header, Device::cpu(), DType::float32, classification_loss(*model));
  };
  measure(8192);  // makes scratchpads as large as they get
  const BatchMemory small = measure(2048), middle = measure(4096), large = measure(8192);
  const double first = static_cast<double>(middle.held - small.held);
  EXPECT_NEAR(static_cast<double>(large.held - middle.held), 2 * first, 0.2 * first);
  EXPECT_GE(small.held, 2048u * 12 * 4) << "the batch itself";
  EXPECT_GE(large.peak, large.held);
  const std::size_t after = backend(Device::cpu()).memory(Device::cpu()).in_use;
  measure(2048);
  EXPECT_EQ(backend(Device::cpu()).memory(Device::cpu()).in_use, after) << "nothing is kept";
}

}  // namespace
}  // namespace tasuki
