// Image files become pixels of the right size, and damage becomes a line.
#include "dataset/images/image.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

#include "dataset/images/image_formats.hpp"
#include "dataset/images/png_file.hpp"
#include "files.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/image_files.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

// Smooth enough that JPEG keeps it nearly as it is.
Image slope(std::int64_t height, std::int64_t width) {
  return make_image(height, width, [](int c, int y, int x) { return 40 * c + 2 * y + 3 * x; });
}

Image decoded(const std::string& file, std::int64_t shortest_side = whole_image) {
  return decode_image(bytes_of(file), "a file", shortest_side);
}

std::vector<std::uint8_t> resized(const Image& image, std::int64_t side) {
  std::vector<std::uint8_t> planes(static_cast<std::size_t>(3 * side * side));
  resize_and_crop(image, side, planes.data());
  return planes;
}

void expect_close(const Image& found, const Image& expected, int tolerance) {
  ASSERT_EQ(found.height, expected.height);
  ASSERT_EQ(found.width, expected.width);
  ASSERT_EQ(found.pixels.size(), expected.pixels.size());
  for (std::size_t i = 0; i < found.pixels.size(); ++i)
    ASSERT_NEAR(found.pixels[i], expected.pixels[i], tolerance) << "byte " << i;
}

TEST(Image, DecodesPngExactly) {
  const Image image = slope(13, 22);
  expect_close(decoded(png_file(image)), image, 0);
}

TEST(Image, DecodesJpegClosely) {
  const Image image = slope(24, 40);
  expect_close(decoded(jpeg_file(image)), image, 6);
}

TEST(Image, ConvertsGreyAndCmykToRgb) {
  const std::vector<std::uint8_t> grey(16 * 16, 90);
  const Image from_grey = decoded(jpeg_file(16, 16, grey, JCS_GRAYSCALE));
  expect_close(from_grey, make_image(16, 16, [](int, int, int) { return 90; }), 2);

  // libjpeg writes CMYK with Adobe's marker: 255 means no ink.
  std::vector<std::uint8_t> inks;
  for (int i = 0; i < 256; ++i) inks.insert(inks.end(), {200, 100, 50, 255});
  const Image from_inks = decoded(jpeg_file(16, 16, inks, JCS_CMYK));
  expect_close(from_inks,
               make_image(16, 16, [](int c, int, int) { return c == 0   ? 200
                                                               : c == 1 ? 100
                                                                        : 50; }),
               4);
}

TEST(Image, ReducesLargeJpegsWhileDecoding) {
  const std::string file = jpeg_file(slope(64, 48));
  EXPECT_EQ(decoded(file, 48).width, 48);
  EXPECT_EQ(decoded(file, 25).width, 48) << "24 would be too small";
  EXPECT_EQ(decoded(file, 24).width, 24);
  EXPECT_EQ(decoded(file, 24).height, 32);
  EXPECT_EQ(decoded(file, 1).width, 6);
}

// Where pixels end in a file: what follows is its end marker.
std::size_t end_of_pixels(const std::string& file) {
  constexpr std::size_t jpeg_end = 2, png_end = 12;
  return file.size() - (file[1] == 'P' ? png_end : jpeg_end);
}

TEST(Image, DetectsTruncatedPixels) {
  for (const std::string& file :
       {jpeg_file(slope(40, 40)), png_file(slope(40, 40)), progressive_jpeg_file(slope(40, 40))}) {
    for (std::size_t length = 0; length < end_of_pixels(file); ++length) {
      SCOPED_TRACE(length);
      expect_error(ErrorKind::data, {"dog/7", "expected", "found"},
                   [&] { decode_image(bytes_of(file.substr(0, length)), "dog/7"); });
    }
  }
}

TEST(Image, AcceptsMissingEndMarker) {
  for (const std::string& file :
       {jpeg_file(slope(40, 40)), png_file(slope(40, 40)), progressive_jpeg_file(slope(40, 40))}) {
    const Image whole = decoded(file);
    EXPECT_FALSE(whole.lacks_end);
    for (std::size_t length = end_of_pixels(file); length < file.size(); ++length) {
      SCOPED_TRACE(length);
      const Image cut = decoded(file.substr(0, length));
      EXPECT_TRUE(cut.lacks_end);
      EXPECT_EQ(cut.pixels, whole.pixels);
      std::vector<std::uint32_t> pixels;
      EXPECT_TRUE(decode_view(
          bytes_of(file.substr(0, length)), "view",
          [](auto height, auto width) { return middle_crop(height, width, 40, 40); }, pixels));
    }
  }
}

// No damage, however long one side is.
TEST(Image, ReadsPanoramas) {
  const Image wide = make_image(8, 20000, [](int c, int, int x) { return (c + x) % 251; });
  for (const Image& found : {decoded(png_file(wide)), decoded(jpeg_file(wide))}) {
    EXPECT_EQ(found.width, 20000);
    EXPECT_EQ(found.height, 8);
  }
  std::vector<std::uint32_t> pixels;
  decode_view(
      bytes_of(png_file(wide)), "view",
      [](auto height, auto width) { return middle_crop(height, width, 8, 8); }, pixels);
  for (std::size_t x = 0; x < 8; ++x) EXPECT_EQ(pixels[x] & 255, (9996 + x) % 251);
}

TEST(Image, RejectsMorePixelsThanFitMemory) {
  std::string file = png_file(slope(4, 4));
  // 65,535 x 65,535 pixels, as the header says with its check sum.
  for (const std::size_t at : {18, 19, 22, 23}) file[at] = '\xFF';
  const unsigned long sum = ::crc32(0, reinterpret_cast<const Bytef*>(file.data()) + 12, 17);
  file.replace(29, 4, big_endian(sum, 4));
  expect_error(ErrorKind::data, {"huge.png", "at most 268435456 pixels, found 65535 x 65535"},
               [&] { decode_image(bytes_of(file), "huge.png"); });
}

// Threads that decode the largest images take turns.
TEST(Image, LimitsPixelsDecodedAtOnce) {
  std::optional<PixelsUnderWay> largest(std::in_place, "a", 1 << 14, 1 << 14);
  std::atomic<bool> has_begun = false;
  std::jthread other([&] {
    const PixelsUnderWay one("b", 1, 1);
    has_begun = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(has_begun);
  largest.reset();
  other.join();
  EXPECT_TRUE(has_begun);
  const PixelsUnderWay half("c", 1 << 13, 1 << 14), rest("d", 1 << 13, 1 << 14);
}

// Whatever bytes come: an image or one line, never a crash.
TEST(Image, NeverCrashesOnDamagedBytes) {
  for (const std::string& file : {jpeg_file(slope(40, 40)), png_file(slope(40, 40))}) {
    for (std::size_t at = 0; at < file.size(); ++at) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x5A);
      try {
        const Image image = decoded(damaged);
        EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(image.height * image.width * 3));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::data);
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      }
    }
  }
}

TEST(Image, NamesOtherFiles) {
  expect_error(ErrorKind::data, {"x.jpg", "JPEG or PNG", "an empty file"},
               [] { decode_image({}, "x.jpg"); });
  expect_error(ErrorKind::data, {"x.jpg", "something else"},
               [] { decode_image(bytes_of("<html>not found</html>"), "x.jpg"); });
}

TEST(Pixels, RoundToBytesInRange) {
  EXPECT_EQ(byte_of(0), 0);
  EXPECT_EQ(byte_of(1), 255);
  EXPECT_EQ(byte_of(0.501f / 255), 1);
  EXPECT_EQ(byte_of(254.499f / 255), 254);
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (const float below : {-0.001f, -300.0f, -infinite}) EXPECT_EQ(byte_of(below), 0);
  for (const float above : {1.001f, 300.0f, infinite}) EXPECT_EQ(byte_of(above), 255);
}

TEST(Pixels, RejectNonFiniteValues) {
  const float values[] = {0.5f, std::numeric_limits<float>::quiet_NaN()};
  expect_error(ErrorKind::data, {"expected pixels of 0 to 1", "not a number"}, [&] {
    tile_images(Tensor::from(std::span<const float>(values), {1, 1, 1, 2}), 1);
  });
}

TEST(Pixels, TileWithABorderBetweenImages) {
  const float values[] = {0, 0.2f, 0.4f, 0.6f, 0.8f, 1};
  const Image grid = tile_images(Tensor::from(std::span<const float>(values), {3, 1, 1, 2}), 2);
  EXPECT_EQ(grid.height, 5);
  EXPECT_EQ(grid.width, 7);
  // Rows 1 and 3 of 7 pixels have the images, from column 1 and column 4.
  std::vector<std::uint8_t> expected(5 * 7 * 3, 0);
  const auto set = [&](std::size_t row, std::size_t column, std::uint8_t value) {
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>((row * 7 + column) * 3), 3, value);
  };
  set(1, 2, 51);
  set(1, 4, 102);
  set(1, 5, 153);
  set(3, 1, 204);
  set(3, 2, 255);
  EXPECT_EQ(grid.pixels, expected);
  EXPECT_EQ(decoded(encode_png(grid)).pixels, expected);
}

TEST(Resize, CopiesPlanesOfTheSameSize) {
  const Image image = slope(9, 9);
  const auto planes = resized(image, 9);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < 81; ++i) ASSERT_EQ(planes[c * 81 + i], image.pixels[i * 3 + c]);
}

TEST(Resize, CropsTheCentreOfTheLongerSide) {
  const Image wide = make_image(4, 10, [](int, int, int x) { return x * 10; });
  const auto planes = resized(wide, 4);
  for (std::size_t x = 0; x < 4; ++x) EXPECT_EQ(planes[x], 30 + 10 * x);
  const Image tall = make_image(10, 4, [](int, int y, int) { return y * 10; });
  const auto columns = resized(tall, 4);
  for (std::size_t y = 0; y < 4; ++y) EXPECT_EQ(columns[4 * y], 30 + 10 * y);
}

TEST(Resize, EnlargesBilinearly) {
  const Image image = make_image(2, 2, [](int, int, int x) { return x == 0 ? 0 : 100; });
  const auto planes = resized(image, 4);
  EXPECT_EQ(std::vector<std::uint8_t>(planes.begin(), planes.begin() + 4),
            (std::vector<std::uint8_t>{0, 25, 75, 100}));
}

// Single pixels of a fine pattern would otherwise appear and vanish.
TEST(Resize, AveragesWhenShrinking) {
  const Image board = make_image(64, 64, [](int, int y, int x) { return (x + y) % 2 * 200; });
  const auto planes = resized(board, 8);
  for (const std::uint8_t value : planes) EXPECT_NEAR(value, 100, 1);
  const Image flat = make_image(37, 53, [](int c, int, int) { return 70 + c; });
  const auto even = resized(flat, 10);
  for (std::size_t i = 0; i < even.size(); ++i) ASSERT_EQ(even[i], 70 + i / 100);
}

TEST(Resize, FillsFromASinglePixel) {
  const auto planes = resized(make_image(1, 1, [](int, int, int) { return 9; }), 3);
  EXPECT_EQ(planes, std::vector<std::uint8_t>(27, 9));
}

}  // namespace
}  // namespace tasuki
