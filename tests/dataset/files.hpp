// Data files that tests make for themselves, in a folder that goes away with the test.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {

inline void write_plain(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline void write_gzip(const std::filesystem::path& path, const std::string& bytes) {
  gzFile file = ::gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  EXPECT_EQ(::gzclose(file), Z_OK);
}

inline std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

// Pixel `j` of image `i`, and label `i`, of the files below.
inline std::uint8_t pixel(std::int64_t i, std::int64_t j) {
  return static_cast<std::uint8_t>((i * 131 + j * 7 + i * j) % 256);
}
inline std::uint8_t label(std::int64_t i, int classes = 10) {
  return static_cast<std::uint8_t>(i * 7 % classes);
}

inline std::string idx_images(int count, int rows, int columns) {
  std::string bytes = big_endian(0x803) + big_endian(static_cast<std::uint32_t>(count)) +
                      big_endian(static_cast<std::uint32_t>(rows)) +
                      big_endian(static_cast<std::uint32_t>(columns));
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < rows * columns; ++j) bytes.push_back(static_cast<char>(pixel(i, j)));
  return bytes;
}

inline std::string idx_labels(int count) {
  std::string bytes = big_endian(0x801) + big_endian(static_cast<std::uint32_t>(count));
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(label(i)));
  return bytes;
}

}  // namespace tasuki::testing
