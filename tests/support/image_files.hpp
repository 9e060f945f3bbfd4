// Image files that tests make for themselves.
#pragma once

#include <cstdio>  // jpeglib.h uses what is in it

#include <gtest/gtest.h>
#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "dataset/images/image.hpp"

namespace tasuki::testing {

// An image whose channel c at (y, x) is value(c, y, x).
inline Image make_image(std::int64_t height, std::int64_t width,
                        const std::function<int(int c, int y, int x)>& value) {
  Image image{height, width, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) image.pixels.push_back(static_cast<std::uint8_t>(value(c, y, x)));
  return image;
}

inline std::string png_file(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = 0;
  EXPECT_TRUE(png_image_write_to_memory(&png, nullptr, &bytes, 0, image.pixels.data(), 0, nullptr));
  std::string file(bytes, '\0');
  EXPECT_TRUE(
      png_image_write_to_memory(&png, file.data(), &bytes, 0, image.pixels.data(), 0, nullptr));
  return file;
}

// `space` is what `pixels` hold: JCS_RGB (3 bytes), JCS_GRAYSCALE (1) or JCS_CMYK (4).
inline std::string jpeg_file(std::int64_t height, std::int64_t width,
                             const std::vector<std::uint8_t>& pixels, J_COLOR_SPACE space = JCS_RGB,
                             int quality = 95, bool is_progressive = false) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &buffer, &bytes);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = space == JCS_RGB ? 3 : space == JCS_CMYK ? 4 : 1;
  info.in_color_space = space;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  if (is_progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPLE*>(pixels.data()) +
                static_cast<std::size_t>(info.next_scanline) * info.image_width *
                    static_cast<std::size_t>(info.input_components);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<const char*>(buffer), bytes);
  std::free(buffer);
  return file;
}
inline std::string jpeg_file(const Image& image, int quality = 95) {
  return jpeg_file(image.height, image.width, image.pixels, JCS_RGB, quality);
}

inline std::string progressive_jpeg_file(const Image& image) {
  return jpeg_file(image.height, image.width, image.pixels, JCS_RGB, 95, true);
}

// EXIF data with the orientation alone, a number from 1 to 8.
inline std::string exif_data(std::uint16_t orientation) {
  std::string data("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 18);
  for (const int part : {orientation & 255, orientation >> 8, 0, 0, 0, 0, 0, 0})
    data += static_cast<char>(part);
  return data;
}

inline std::string big_endian(std::size_t number, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(number >> (8 * i) & 255);
  return text;
}

// The file with an APP1 segment behind its start.
inline std::string jpeg_with_exif(const std::string& file, std::uint16_t orientation) {
  const std::string contents = std::string("Exif\0\0", 6) + exif_data(orientation);
  return file.substr(0, 2) + "\xFF\xE1" + big_endian(contents.size() + 2, 2) + contents +
         file.substr(2);
}

// The file with a chunk eXIf behind its header.
inline std::string png_with_exif(const std::string& file, std::uint16_t orientation) {
  constexpr std::size_t header = 8 + 25;
  const std::string data = exif_data(orientation), chunk = "eXIf" + data;
  const unsigned long sum =
      ::crc32(0, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<uInt>(chunk.size()));
  return file.substr(0, header) + big_endian(data.size(), 4) + chunk + big_endian(sum, 4) +
         file.substr(header);
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace tasuki::testing
