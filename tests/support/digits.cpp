#include "digits.hpp"

#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace tasuki::testing {
namespace {

constexpr std::int64_t image_side = 28;

void append_big_endian(std::string& bytes, std::int64_t value) {
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>((value >> shift) & 0xff);
}

void write_split(const std::filesystem::path& folder, const std::string& name, std::int64_t count,
                 unsigned seed) {
  std::mt19937 random(seed);
  std::string images, labels;
  append_big_endian(images, 0x803);
  for (const std::int64_t size : {count, image_side, image_side}) append_big_endian(images, size);
  append_big_endian(labels, 0x801);
  append_big_endian(labels, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::int64_t>(random() % 10);
    labels += static_cast<char>(label);
    for (std::int64_t pixel = 0; pixel < image_side * image_side; ++pixel) {
      const bool bright = pixel % image_side / 2 == label;
      images += static_cast<char>((bright ? 100 : 0) + random() % 150);
    }
  }
  std::ofstream(folder / (name + "-images-idx3-ubyte"), std::ios::binary) << images;
  std::ofstream(folder / (name + "-labels-idx1-ubyte"), std::ios::binary) << labels;
}

}  // namespace

void write_digits(const std::filesystem::path& folder, std::int64_t train, std::int64_t test) {
  std::filesystem::create_directories(folder);
  write_split(folder, "train", train, 1);
  write_split(folder, "t10k", test, 2);
}

}  // namespace tasuki::testing
