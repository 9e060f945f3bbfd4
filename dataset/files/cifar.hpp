// CIFAR-10 and CIFAR-100 in their binary version (A. Krizhevsky, "Learning multiple layers of
// features from tiny images", 2009; https://www.cs.toronto.edu/~kriz/cifar.html).
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "dataset/data_source.hpp"

namespace tasuki {

// Records of `label_bytes` labels (the last one counts: CIFAR-100 has a coarse label before the
// fine one) and 3 x 32 x 32 pixels. All files must hold the same whole number of records, which
// detects a truncated file.
std::unique_ptr<DataSource> open_cifar(std::vector<std::filesystem::path> files,
                                       std::int64_t classes, std::size_t label_bytes);

}  // namespace tasuki
