// Small data sets in CIFAR's binary formats.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tasuki::testing {

// Writes CIFAR-10's six files, or with 100 classes CIFAR-100's two, into `folder`: `train` examples
// (a multiple of 5 for CIFAR-10's five files) and `test` ones of 3 x 32 x 32 pixels. Each class has
// its own place of a bright square and its own colour under noise, so that a network soon learns
// them.
void write_pictures(const std::filesystem::path& folder, std::int64_t train, std::int64_t test,
                    int classes = 10);

}  // namespace tasuki::testing
