#include "pictures.hpp"

#include <fmt/core.h>

#include <fstream>
#include <random>
#include <string>

namespace tasuki::testing {
namespace {

constexpr int side = 32, channels = 3;

std::string records(std::int64_t count, int classes, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    const int label = static_cast<int>(random() % static_cast<unsigned>(classes));
    if (classes > 10) bytes += static_cast<char>(label / 5);  // CIFAR-100's coarse label
    bytes += static_cast<char>(label);
    const int colour = label % channels, row = label % 4 * 8, column = label / 4 % 4 * 8;
    for (int c = 0; c < channels; ++c)
      for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) {
          const bool bright = c == colour && y / 8 * 8 == row && x / 8 * 8 == column;
          bytes += static_cast<char>((bright ? 150 : 0) + static_cast<int>(random() % 100));
        }
  }
  return bytes;
}

}  // namespace

void write_pictures(const std::filesystem::path& folder, std::int64_t train, std::int64_t test,
                    int classes) {
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, std::int64_t count, unsigned seed) {
    std::ofstream(folder / name, std::ios::binary) << records(count, classes, seed);
  };
  if (classes > 10) {
    write("train.bin", train, 1);
    write("test.bin", test, 2);
    return;
  }
  for (unsigned file = 1; file <= 5; ++file)
    write(fmt::format("data_batch_{}.bin", file), train / 5, file);
  write("test_batch.bin", test, 6);
}

}  // namespace tasuki::testing
