// What is shown of images: crops, and scaling against Pillow's (make_pillow_references.py).
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/file.hpp"
#include "dataset/images/resample.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/image_files.hpp"
#include "tests/support/json.hpp"
#include "tests/support/paths.hpp"

namespace tasuki {
namespace {

using testing::bytes_of;
using testing::expect_error;

using Pixels = std::vector<std::uint32_t>;

Pixels shown(const std::string& file, const ChooseView& choose) {
  Pixels pixels;
  decode_view(bytes_of(file), "an image", choose, pixels);
  return pixels;
}

int channel_of(std::uint32_t pixel, int c) {
  return static_cast<int>(pixel >> (8 * c) & 255);
}

ViewedAxis part_of_axis(std::int64_t at, std::int64_t length, std::int64_t side) {
  return {static_cast<double>(at), static_cast<double>(length) / static_cast<double>(side), side,
          at, at + length};
}

ImageView view_of(const nlohmann::json& test, std::int64_t height, std::int64_t width) {
  if (test.contains("shorter")) return middle_crop(height, width, test["shorter"], test["side"]);
  return {part_of_axis(test["top"], test["height"], test["side"]),
          part_of_axis(test["left"], test["width"], test["side"]), test["mirrored"]};
}

// Peak signal-to-noise ratio in decibels.
double similarity(const Pixels& pixels, const Image& expected) {
  double squares = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i)
    for (int c = 0; c < 3; ++c) {
      const int value = expected.pixels[3 * i + static_cast<std::size_t>(c)];
      squares += std::pow(channel_of(pixels[i], c) - value, 2);
    }
  return 10 * std::log10(255 * 255 * 3 * static_cast<double>(pixels.size()) / squares);
}

TEST(ImageView, MatchesPillow) {
  const std::string folder = PILLOW;
  for (const nlohmann::json& test : testing::json_in(folder + "/cases.json")) {
    const std::string source = test["source"], result = test["result"];
    const Image expected = decode_image(bytes_of(read_file(folder + "/" + result)), result);
    const Pixels pixels = shown(read_file(folder + "/" + source), [&](auto height, auto width) {
      return view_of(test, height, width);
    });
    ASSERT_EQ(std::ssize(pixels), expected.height * expected.width) << test;
    // Decoded as by Pillow, pixels differ by rounding alone. A JPEG may be decoded in part, or
    // reduced.
    EXPECT_GE(similarity(pixels, expected), source.ends_with(".png") ? 50 : 40) << test;
  }
}

// Ramps, so that every pixel is where it should be.
int ramp(int c, int y, int x) {
  return c == 0 ? 2 * x : c == 1 ? 3 * y : x + y;
}

TEST(ImageView, CopiesPixelsForTheWholeImage) {
  const Image image = testing::make_image(20, 31, ramp);
  for (const bool is_mirrored : {false, true}) {
    const Pixels pixels = shown(testing::png_file(image), [&](auto height, auto width) {
      return ImageView{part_of_axis(0, height, 20), part_of_axis(0, width, 31), is_mirrored};
    });
    for (int y = 0; y < 20; ++y)
      for (int x = 0; x < 31; ++x)
        for (int c = 0; c < 3; ++c)
          ASSERT_EQ(channel_of(pixels[static_cast<std::size_t>(31 * y + x)], c),
                    ramp(c, y, is_mirrored ? 30 - x : x));
  }
}

// Far beyond what a photograph shrinks by; weights are then small.
TEST(ImageView, KeepsBrightnessWhenShrinking) {
  const Image image = testing::make_image(3000, 1500, [](int c, int, int) { return 250 - 7 * c; });
  const Pixels pixels = shown(testing::png_file(image), [](auto height, auto width) {
    return ImageView{part_of_axis(0, height, 3), part_of_axis(0, width, 1), false};
  });
  for (const std::uint32_t pixel : pixels)
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(channel_of(pixel, c), 250 - 7 * c, 1);
}

TEST(ImageView, CropsJpegsLikeTheWholeImage) {
  const std::string file = read_file(std::string(PILLOW) + "/large.jpg");
  const Image whole = decode_image(bytes_of(file), "large.jpg");
  for (const auto& part : {std::array{0, 0, 240, 320},
                           {17, 3, 50, 41},
                           {239, 0, 1, 320},
                           {0, 319, 240, 1},
                           {100, 200, 140, 120},
                           {63, 63, 2, 2}}) {
    const int top = part[0], left = part[1], height = part[2], width = part[3];
    const Pixels pixels = shown(file, [&](auto, auto) {
      return ImageView{part_of_axis(top, height, height), part_of_axis(left, width, width), false};
    });
    Image expected{height, width, {}};
    for (int y = top; y < top + height; ++y) {
      const auto row = whole.pixels.begin() + (y * 320 + left) * 3;
      expected.pixels.insert(expected.pixels.end(), row, row + width * 3);
    }
    EXPECT_GE(similarity(pixels, expected), 50) << top << ' ' << left;
  }
}

TEST(RandomCrop, StaysInsideTheImageAndItsRange) {
  const CropRange range;
  std::set<bool> mirrored;
  double smallest = 1, largest = 0, narrowest = 2, widest = 0;
  for (int i = 0; i < 4000; ++i) {
    const ImageView view = random_crop(200, 300, 64, range, true, RandomStream(1, i));
    const auto length = [](const ViewedAxis& axis) {
      return static_cast<double>(axis.high - axis.low);
    };
    EXPECT_GE(view.rows.low, 0);
    EXPECT_LE(view.rows.high, 200);
    EXPECT_GE(view.columns.low, 0);
    EXPECT_LE(view.columns.high, 300);
    EXPECT_NEAR(view.rows.step * 64, length(view.rows), 1e-9);
    const double area = length(view.rows) * length(view.columns) / (200 * 300);
    const double ratio = length(view.columns) / length(view.rows);
    smallest = std::min(smallest, area), largest = std::max(largest, area);
    narrowest = std::min(narrowest, ratio), widest = std::max(widest, ratio);
    mirrored.insert(view.is_mirrored);
  }
  EXPECT_EQ(mirrored.size(), 2U);
  EXPECT_NEAR(smallest, 0.08, 0.01);
  EXPECT_GT(largest, 0.8);
  EXPECT_NEAR(narrowest, 0.75, 0.03);
  EXPECT_NEAR(widest, 4.0 / 3, 0.05);
}

TEST(RandomCrop, UsesTheCentreOfNarrowImages) {
  const ImageView view = random_crop(1000, 10, 8, {.least_area = 0.5}, false, RandomStream(1));
  EXPECT_EQ(view.columns.low, 0);
  EXPECT_EQ(view.columns.high, 10);
  EXPECT_EQ(view.rows.high - view.rows.low, 13);
  EXPECT_EQ(view.rows.low, (1000 - 13) / 2);
}

TEST(RandomCrop, IsNotChangedByMirroring) {
  for (int i = 0; i < 50; ++i) {
    const ImageView with = random_crop(90, 70, 32, {}, true, RandomStream(3, i));
    const ImageView without = random_crop(90, 70, 32, {}, false, RandomStream(3, i));
    EXPECT_FALSE(without.is_mirrored);
    EXPECT_EQ(with.rows.low, without.rows.low);
    EXPECT_EQ(with.columns.high, without.columns.high);
  }
}

TEST(DecodeView, ReportsDamageInOneLine) {
  std::string file = read_file(std::string(PILLOW) + "/large.jpg");
  file.resize(file.size() / 2);
  const auto all = [](auto height, auto width) { return middle_crop(height, width, 64, 64); };
  expect_error(ErrorKind::data, {"an image: expected a JPEG image, found damage"},
               [&] { shown(file, all); });
  expect_error(ErrorKind::data, {"an image: expected a JPEG or PNG image, found something else"},
               [&] { shown("just text", all); });
  expect_error(ErrorKind::data, {"found an empty file"}, [&] { shown("", all); });
}

}  // namespace
}  // namespace tasuki
