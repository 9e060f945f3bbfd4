// Augmented images, and what they depend on.
#include "dataset/images/create_transform.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "dataset/dataset.hpp"
#include "dataset/in_memory.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/views.hpp"
#include "examples.hpp"
#include "files.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

// No vector width divides a row.
const Shape image_shape{3, 13, 11};

std::shared_ptr<InMemoryDataset> images(std::int64_t count, const Shape& shape = image_shape) {
  auto dataset = std::make_shared<InMemoryDataset>(classification_header(count, shape, 10));
  std::vector<std::byte> pixels(static_cast<std::size_t>(shape.count()));
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < pixels.size(); ++j)
      pixels[j] = static_cast<std::byte>(testing::pixel(i + 1, static_cast<std::int64_t>(j)));
    set_example(*dataset, i, pixels, static_cast<std::int32_t>(i % 10));
  }
  return dataset;
}

std::vector<float> apply(const ImageTransform& settings, const InMemoryDataset& dataset,
                         std::int64_t i, std::int64_t epoch = 0, std::uint64_t seed = 1) {
  std::vector<float> result(static_cast<std::size_t>(shape_in(dataset).count()), -1);
  create_transform(settings, dataset.header().field("x"), seed)(
      stored_in(dataset, "x", i).data(), {epoch, dataset.id(i)}, result.data());
  return result;
}

// Pixel (c, y, x) of image i after a shift and a flip; 0 outside.
double shifted(const InMemoryDataset& dataset, std::int64_t i, std::int64_t c, std::int64_t y,
               std::int64_t x, std::int64_t down, std::int64_t right, bool mirrored) {
  const Shape& shape = shape_in(dataset);
  if (mirrored) x = shape[2] - 1 - x;
  y += down;
  x += right;
  if (y < 0 || y >= shape[1] || x < 0 || x >= shape[2]) return 0;
  const auto at = static_cast<std::size_t>((c * shape[1] + y) * shape[2] + x);
  return std::to_integer<int>(stored_in(dataset, "x", i)[at]);
}

// The shift and flip that made `found` of image i by a crop alone; {-100, -100} when none did.
struct Placement {
  std::int64_t down = -100, right = -100;
  bool mirrored = false;
  friend auto operator<=>(const Placement&, const Placement&) = default;
};
Placement placement_of(const std::vector<float>& found, const InMemoryDataset& dataset,
                       std::int64_t i, std::int64_t padding) {
  const Shape& shape = shape_in(dataset);
  for (Placement at{-padding, -padding, false}; at.down <= padding; ++at.down)
    for (at.right = -padding; at.right <= padding; ++at.right)
      for (const bool mirrored : {false, true}) {
        at.mirrored = mirrored;
        bool equal = true;
        std::size_t next = 0;
        for (std::int64_t c = 0; equal && c < shape[0]; ++c)
          for (std::int64_t y = 0; equal && y < shape[1]; ++y)
            for (std::int64_t x = 0; equal && x < shape[2]; ++x)
              equal = found[next++] == static_cast<float>(shifted(dataset, i, c, y, x, at.down,
                                                                  at.right, mirrored)) /
                                           255.0f;
        if (equal) return at;
      }
  return {};
}

TEST(Augmentation, MatchesPlainDecodingWhenDisabled) {
  const auto dataset = images(3);
  for (std::int64_t i = 0; i < 3; ++i) {
    std::vector<float> expected(429);
    decoder_of(DType::uint8, DType::float32)(stored_in(*dataset, "x", i).data(),
                                             reinterpret_cast<std::byte*>(expected.data()), 429);
    EXPECT_EQ(apply({}, *dataset, i), expected);
  }
}

TEST(Augmentation, DrawsCropsAndFlipsUniformly) {
  constexpr int draws = 3000;
  const auto dataset = images(1);
  std::map<Placement, int> seen;
  for (std::int64_t epoch = 0; epoch < draws; ++epoch)
    ++seen[placement_of(apply({.padding = 2, .flip = true}, *dataset, 0, epoch), *dataset, 0, 2)];
  ASSERT_EQ(seen.size(), 5u * 5u * 2u) << "every shift by -2 .. 2, mirrored and not";
  EXPECT_FALSE(seen.contains({}));
  for (const auto& [placement, count] : seen) {
    EXPECT_GT(count, draws / 50 / 2);
    EXPECT_LT(count, draws / 50 * 2);
  }
}

TEST(Augmentation, DrawsPartsIndependently) {
  const auto dataset = images(1);
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const auto both =
        placement_of(apply({.padding = 3, .flip = true}, *dataset, 0, epoch), *dataset, 0, 3);
    const auto crop = placement_of(apply({.padding = 3}, *dataset, 0, epoch), *dataset, 0, 3);
    const auto flip = placement_of(apply({.flip = true}, *dataset, 0, epoch), *dataset, 0, 0);
    EXPECT_EQ(both, (Placement{crop.down, crop.right, flip.mirrored}));
    EXPECT_FALSE(crop.mirrored);
  }
}

TEST(Augmentation, LimitsBrightnessAndContrast) {
  const auto dataset = images(1);
  const auto plain = apply({}, *dataset, 0);
  std::set<float> brighter, factors;
  const std::size_t area = 143;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const auto bright = apply({.brightness = 0.3}, *dataset, 0, epoch);
    const std::size_t middle = static_cast<std::size_t>(
        std::find_if(plain.begin(), plain.end(), [](float x) { return x > 0.45f && x < 0.55f; }) -
        plain.begin());
    const float delta = bright.at(middle) - plain.at(middle);
    brighter.insert(delta);
    for (std::size_t j = 0; j < plain.size(); ++j)
      ASSERT_NEAR(bright[j], std::clamp(plain[j] + delta, 0.0f, 1.0f), 1e-6);

    const auto stretched = apply({.contrast = 0.5}, *dataset, 0, epoch);
    const double mean =
        std::accumulate(plain.begin(), plain.begin() + area, 0.0) / static_cast<double>(area);
    std::size_t far = 0;  // a pixel that cannot be clipped: half way from the mean to an end
    while (std::abs(plain[far] - mean) < 0.1 || std::abs(plain[far] - mean) > 0.3) ++far;
    const double factor = (stretched[far] - mean) / (plain[far] - mean);
    factors.insert(static_cast<float>(factor));
    for (std::size_t j = 0; j < area; ++j)
      ASSERT_NEAR(stretched[j], std::clamp(factor * (plain[j] - mean) + mean, 0.0, 1.0), 1e-5);
  }
  EXPECT_GT(brighter.size(), 190u);
  EXPECT_GE(*brighter.begin(), -0.3f - 1e-6f);
  EXPECT_LT(*brighter.begin(), -0.25f);
  EXPECT_LE(*brighter.rbegin(), 0.3f + 1e-6f);
  EXPECT_GT(*brighter.rbegin(), 0.25f);
  EXPECT_NEAR(*factors.begin(), 0.5, 0.05);
  EXPECT_NEAR(*factors.rbegin(), 1.5, 0.05);
}

TEST(Augmentation, StandardisesMeanAndDeviation) {
  const auto dataset = images(5);
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto plain = apply({}, *dataset, i), white = apply(standardization, *dataset, i);
    double mean = 0, squares = 0;
    for (const float value : plain) mean += value;
    mean /= static_cast<double>(plain.size());
    for (const float value : plain) squares += (value - mean) * (value - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(plain.size()));
    for (std::size_t j = 0; j < plain.size(); ++j)
      ASSERT_NEAR(white[j], (plain[j] - mean) / deviation, 1e-5);
  }
}

// The divisor never falls below 1 / sqrt(n): without it this image would be divided by zero.
TEST(Augmentation, KeepsFlatImagesFinite) {
  auto flat = std::make_shared<InMemoryDataset>(classification_header(2, {1, 4, 4}, 2));
  std::vector<std::byte> pixels(16, std::byte{128});
  set_example(*flat, 0, pixels, 0);
  pixels[5] = std::byte{129};
  set_example(*flat, 1, pixels, 0);
  EXPECT_EQ(apply(standardization, *flat, 0), std::vector<float>(16, 0));
  // Deviation sqrt(15) / 16 = 0.242, below 1 / sqrt(16).
  EXPECT_FLOAT_EQ(apply(standardization, *flat, 1)[5], (15.0f / 16) / 0.25f);
}

// A device with the stored images computes the same as the threads that read batches ahead.
TEST(Augmentation, GivesTheSamePixelsOnABackend) {
  const auto dataset = images(5);
  const std::array<std::int64_t, 3> numbers{4, 0, 4};
  const std::int64_t epoch = 6;
  const Tensor indices = Tensor::from(std::span<const std::int64_t>(numbers), {3});
  const Tensor stored = Tensor::empty({5, 3, 13, 11}, DType::uint8);
  auto* next = static_cast<std::byte*>(stored.raw());
  for (std::int64_t i = 0; i < 5; ++i)
    next = std::ranges::copy(stored_in(*dataset, "x", i), next).out;
  const Tensor batch =
      backend(Device::cpu())
          .transform_images(stored, indices, indices, Tensor::from(std::span(&epoch, 1), {1}),
                            {augmentation, 7}, DType::float32);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto row = batch.span<float>().subspan(i * 429, 429);
    EXPECT_EQ(std::vector<float>(row.begin(), row.end()),
              apply(augmentation, *dataset, numbers[i], epoch, 7));
  }
}

TEST(Augmentation, DescribesTransformsOfViews) {
  const auto plain = images(4);
  const auto augmented =
      transformed(plain, create_transform(augmentation, plain->header().field("x"), 7));
  EXPECT_FALSE(subset_of(plain, {1})->is_transformed());
  for (const auto& dataset : {augmented, subset_of(augmented, {2, 0})}) {
    EXPECT_TRUE(dataset->is_transformed());
    ASSERT_TRUE(dataset->transform(0)->on_device);
    EXPECT_EQ(dataset->transform(0)->on_device->seed, 7U);
    EXPECT_EQ(dataset->transform(0)->on_device->settings.padding, augmentation.padding);
    EXPECT_EQ(dataset->transform(1), nullptr) << "labels are left alone";
  }
}

TEST(Augmentation, DependsOnlyOnSeedEpochAndExample) {
  const auto dataset = images(2);
  const auto first = apply(augmentation, *dataset, 0, 3, 7);
  EXPECT_EQ(first, apply(augmentation, *dataset, 0, 3, 7));
  EXPECT_NE(first, apply(augmentation, *dataset, 0, 4, 7));
  EXPECT_NE(first, apply(augmentation, *dataset, 0, 3, 8));
  EXPECT_NE(placement_of(apply({.padding = 4}, *dataset, 0), *dataset, 0, 4),
            placement_of(apply({.padding = 4}, *dataset, 1), *dataset, 1, 4));
}

// Rows by example of one epoch, as `ranks` ranks with this batch size and prefetch threads see it.
std::map<std::int64_t, std::vector<float>> rows_of_epoch(int ranks, std::int64_t batch_size,
                                                         int threads, std::int64_t epoch) {
  const auto dataset = images(41);
  std::map<std::int64_t, std::vector<float>> rows;
  for (int rank = 0; rank < ranks; ++rank) {
    Share share = take_share(dataset, ranks, rank, {.shuffle = true, .seed = 3});
    share.dataset =
        transformed(share.dataset, create_transform(augmentation, dataset->header().field("x"), 9));
    PrefetchIterator iterator(create_shuffled_iterator(share, batch_size, 5), threads, threads);
    iterator.restore({epoch, 0});
    for (std::int64_t step = 0; step < iterator.steps_per_epoch(); ++step) {
      const Batch batch = iterator.next();
      const std::size_t count = static_cast<std::size_t>(image_shape.count());
      for (std::size_t i = 0; i < batch.ids().size(); ++i) {
        const float* row = batch["x"].data<float>() + i * count;
        EXPECT_EQ(batch["t"].data<std::int32_t>()[i], batch.ids()[i] % 10);
        EXPECT_TRUE(rows.emplace(batch.ids()[i], std::vector<float>(row, row + count)).second);
      }
    }
  }
  return rows;
}

TEST(Augmentation, DoesNotDependOnRanksBatchesOrThreads) {
  const auto expected = rows_of_epoch(1, 41, 1, 2);
  ASSERT_EQ(expected.size(), 41u);
  EXPECT_EQ(rows_of_epoch(1, 8, 4, 2), expected);
  EXPECT_EQ(rows_of_epoch(2, 7, 2, 2), expected);
  EXPECT_EQ(rows_of_epoch(3, 5, 3, 2), expected);
  EXPECT_NE(rows_of_epoch(1, 41, 1, 3), expected);
}

TEST(Augmentation, TransformsNestedViews) {
  const auto dataset = images(4);
  const auto view = subset_of(
      transformed(dataset, create_transform(augmentation, dataset->header().field("x"), 1)),
      {2, 0});
  const Batch batch = read_batch(*view, std::vector<std::int64_t>{0, 1}, 5);
  const auto first = apply(augmentation, *dataset, 2, 5);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), batch["x"].data<float>()));
}

// A transform reads examples as stored, so another one cannot follow it.
TEST(Augmentation, RejectsASecondTransformOfAField) {
  const auto dataset = images(4);
  const Transform augment = create_transform(augmentation, dataset->header().field("x"), 1);
  for (const auto& augmented :
       {transformed(dataset, augment), subset_of(transformed(dataset, augment), {2, 0})})
    expect_error(ErrorKind::usage, {"field 'x'", "transformed already", "leave --augment out"},
                 [&] { transformed(augmented, augment); });
}

TEST(Augmentation, RejectsFieldsThatAreNotImages) {
  expect_error(ErrorKind::config, {"784", "channels x height x width"}, [] {
    create_transform(augmentation, {.name = "x", .shape = {784}, .stored = DType::uint8});
  });
  expect_error(ErrorKind::config, {"float32"}, [] {
    create_transform(augmentation, {.name = "x", .shape = {3, 8, 8}});
  });
  expect_error(ErrorKind::config, {"5 x 5", "3x4x4"}, [] {
    create_transform(augmentation, {.name = "x", .shape = {3, 4, 4}, .stored = DType::uint8});
  });
}

}  // namespace
}  // namespace tasuki
