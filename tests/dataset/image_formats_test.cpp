// Every form of pixels that PNG and JPEG have, and EXIF orientation, against what Pillow reads
// (make_image_formats.py).
#include <gtest/gtest.h>

#include <cmath>

#include "core/file.hpp"
#include "dataset/images/exif.hpp"
#include "dataset/images/image.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/image_files.hpp"
#include "tests/support/json.hpp"
#include "tests/support/paths.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

const std::string folder = FORMATS;

// libjpeg's versions differ by rounding.
int tolerance_of(const std::string& file) {
  return file.ends_with(".jpg") ? 2 : 0;
}

TEST(ImageFormats, MatchPillow) {
  for (const nlohmann::json& expected : json_in(folder + "/cases.json")) {
    const std::string name = expected["file"], digits = expected["pixels"];
    SCOPED_TRACE(name);
    const Image found = decode_image(bytes_of(read_file(folder + "/" + name)), name);
    EXPECT_EQ(found.height, expected["height"]);
    EXPECT_EQ(found.width, expected["width"]);
    ASSERT_EQ(2 * found.pixels.size(), digits.size());
    for (std::size_t i = 0; i < found.pixels.size(); ++i)
      ASSERT_NEAR(found.pixels[i], std::stoi(digits.substr(2 * i, 2), nullptr, 16),
                  tolerance_of(name))
          << "byte " << i;
    EXPECT_FALSE(found.lacks_end);
  }
}

TEST(Exif, IsIgnoredOnRequest) {
  const Image turned = decode_image(bytes_of(read_file(folder + "/exif6.png")), "turned");
  const Image stored =
      decode_image(bytes_of(read_file(folder + "/exif6.png")), "stored", whole_image, Exif::ignore);
  const Image first = decode_image(bytes_of(read_file(folder + "/exif1.png")), "first");
  EXPECT_EQ(stored.pixels, first.pixels);
  EXPECT_EQ(turned.height, stored.width);
  EXPECT_NE(turned.pixels, stored.pixels);
}

// A view of an image that is turned is that view of the turned image: crops, scales and mirror
// images, with other sizes along both axes.
TEST(Exif, AppliesToViews) {
  const Image stored = make_image(
      37, 52, [](int c, int y, int x) { return 60 * c + 2 * y + (c == 1 ? x : 3 * x % 97); });
  for (const bool is_jpeg : {false, true})
    for (std::uint16_t number = 1; number <= 8; ++number) {
      const std::string file = is_jpeg ? jpeg_with_exif(jpeg_file(stored, 100), number)
                                       : png_with_exif(png_file(stored), number);
      const Image turned = decode_image(bytes_of(file), "turned");
      EXPECT_EQ(turned.height, number < 5 ? 37 : 52);
      for (const bool is_mirrored : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", number, is_mirrored, is_jpeg));
        const auto choose = [&](std::int64_t height, std::int64_t width) {
          EXPECT_EQ(height, turned.height);
          EXPECT_EQ(width, turned.width);
          return ImageView{{3, 1.5, 14, 3, 24}, {5.0, 2.25, 9, 2, 30}, is_mirrored};
        };
        std::vector<std::uint32_t> found, expected;
        decode_view(bytes_of(file), "view", choose, found);
        decode_view(bytes_of(png_file(turned)), "view", choose, expected);
        ASSERT_EQ(found.size(), 14U * 9);
        for (std::size_t i = 0; i < found.size(); ++i)
          for (int shift = 0; shift < 24; shift += 8)
            // Colours at the edge of what is decoded of a JPEG are interpolated.
            ASSERT_NEAR(static_cast<int>(found[i] >> shift & 255),
                        static_cast<int>(expected[i] >> shift & 255), is_jpeg ? 4 : 1)
                << "pixel " << i;
      }
    }
}

TEST(Exif, MalformedDataKeepTheStoredOrientation) {
  const Image stored = make_image(5, 7, [](int c, int y, int x) { return 50 * c + 9 * y + x; });
  for (const std::string& whole :
       {png_with_exif(png_file(stored), 6), jpeg_with_exif(jpeg_file(stored), 6)}) {
    ASSERT_EQ(find_orientation(bytes_of(whole)), orientation_of(6));
    const std::size_t begin = whole.find("II*"), size = 26;
    ASSERT_NE(begin, std::string::npos);
    for (std::size_t at = begin; at < begin + size; ++at)
      for (const int flipped : {0x01, 0x40, 0xFF}) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ flipped);
        const Image found = decode_image(bytes_of(damaged), "damaged");
        EXPECT_EQ(found.pixels.size(), stored.pixels.size());
        // A PNG's check sum shows it; in a JPEG some other number may result.
        if (whole[1] == 'P') {
          EXPECT_EQ(found.pixels, stored.pixels) << at;
        }
      }
    for (std::size_t length = 0; length < whole.size(); ++length)
      find_orientation(bytes_of(whole.substr(0, length)));
  }
}

// A place of the directory, or a number of entries, that is far beyond the data.
TEST(Exif, IgnoresDirectoriesBeyondTheData) {
  const std::string file =
      jpeg_with_exif(jpeg_file(make_image(4, 6, [](int, int, int) { return 9; })), 6);
  const std::size_t tiff = file.find("II*");
  for (const std::size_t bytes : {2, 4}) {
    std::string damaged = file;
    damaged.replace(tiff + 4, bytes, bytes, '\xFF');
    EXPECT_TRUE(find_orientation(bytes_of(damaged)).is_as_stored());
  }
  std::string many = file;
  many.replace(tiff + 8, 2, 2, '\xFF');
  EXPECT_EQ(find_orientation(bytes_of(many)), orientation_of(6)) << "the first entry is there";
  many.replace(tiff + 10, 2, 2, '\xFF');
  EXPECT_TRUE(find_orientation(bytes_of(many)).is_as_stored());
}

}  // namespace
}  // namespace tasuki
