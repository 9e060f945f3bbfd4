// A small data set in MNIST's format.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tasuki::testing {

// Writes the four IDX files of `train` and `test` examples of 28 x 28 pixels into `folder`: each of
// the ten classes has its own bright columns under noise, so that a network soon learns them.
void write_digits(const std::filesystem::path& folder, std::int64_t train, std::int64_t test);

}  // namespace tasuki::testing
